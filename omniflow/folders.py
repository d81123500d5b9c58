"""Where OmniFlow keeps what it can make again."""

from __future__ import annotations

import os
from pathlib import Path


def cache_root() -> Path:
    """`$OMNIFLOW_CACHE`, else `$XDG_CACHE_HOME/omniflow`, else `~/.cache/omniflow`."""
    if chosen := os.environ.get("OMNIFLOW_CACHE"):
        return Path(chosen).expanduser().absolute()
    if shared := os.environ.get("XDG_CACHE_HOME"):
        return Path(shared).expanduser().absolute() / "omniflow"
    return Path.home() / ".cache" / "omniflow"
