"""OmniFlow: runs compiled generative programs, a work unit at a time, on torch experts."""
