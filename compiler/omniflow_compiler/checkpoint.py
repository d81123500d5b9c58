"""Reads what the compiler may know of a checkpoint without loading it: its config.json and the like."""

from __future__ import annotations

import json
from functools import lru_cache
from pathlib import Path
from typing import Any

from omniflow_compiler.library.signature import FromConfig
from omniflow_compiler.reads import note_file, read_bounded

MAX_CONFIG_BYTES = 32 * 1024 * 1024  # a tokenizer.json has ten


@lru_cache(maxsize=64)
def read_config(folder: str, file: str = "config.json") -> dict[str, Any]:
    """The checkpoint's config.json, or nothing when it is absent, too large or not an object."""
    path = Path(folder) / file
    try:
        if path.stat().st_size > MAX_CONFIG_BYTES:
            return {}
        config = json.loads(read_bounded(path, MAX_CONFIG_BYTES))
    except (OSError, ValueError, RecursionError):
        return {}
    return config if isinstance(config, dict) else {}


def read_part(folder: str | None, file: str) -> dict[str, Any]:
    """A JSON file of a checkpoint's folder; nothing while the card does not say which folder."""
    if not folder or folder.startswith("$"):
        return {}
    note_file(Path(folder) / file)
    return read_config(folder, file)


def read_size(size: int | FromConfig, folder: str | None) -> int | None:
    """A size of a component: as declared, or as its checkpoint says."""
    if isinstance(size, int):
        return size
    value: object = read_part(folder, size.file)
    for step in size.path.split(".") if size.path else ():
        value = value.get(step) if isinstance(value, dict) else None
    if size.read is not None:
        value = None if value is None else size.read(value)
    return value if isinstance(value, int) and not isinstance(value, bool) else size.default
