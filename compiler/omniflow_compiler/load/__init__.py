"""Reads one YAML document strictly: `document.py` first, then `text.py`, `syntax.py` and `convert.py`."""
