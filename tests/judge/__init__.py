"""Judges of what OmniFlow makes: models and measures that the product itself never uses."""
