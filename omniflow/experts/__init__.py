"""Torch experts, one file each: what a component named in a card becomes at run time."""
