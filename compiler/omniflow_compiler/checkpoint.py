"""Reads what the compiler may know of a checkpoint without loading it: its config.json."""

from __future__ import annotations

import json
from functools import lru_cache
from pathlib import Path
from typing import Any

MAX_CONFIG_BYTES = 4 * 1024 * 1024


@lru_cache(maxsize=64)
def read_config(folder: str) -> dict[str, Any]:
    """The checkpoint's config.json, or nothing when it is absent, too large or not an object."""
    path = Path(folder) / "config.json"
    try:
        if path.stat().st_size > MAX_CONFIG_BYTES:
            return {}
        config = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return {}
    return config if isinstance(config, dict) else {}
