"""Turns a validated tree into the spec it describes: `kind.py` first, then a file per kind of spec."""
