"""The OmniFlow compiler: checks YAML graphs and lowers them to schedules, without torch."""
