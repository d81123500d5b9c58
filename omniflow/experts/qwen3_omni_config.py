"""Reading one part of a Qwen3-Omni checkpoint's config.json."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from omniflow.experts.lean import CheckpointError

Json = Any
MODEL_TYPE = "qwen3_omni_moe"


def read_section(folder: Path, section: str = "") -> Mapping[str, Json]:
    """The part of config.json at a dotted path. Errors: CheckpointError for another architecture or a missing part."""
    path = folder / "config.json"
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, json.JSONDecodeError) as error:
        raise CheckpointError(f"{path}: cannot be read as JSON: {error}") from None
    if not isinstance(data, dict) or data.get("model_type") != MODEL_TYPE:
        found = data.get("model_type") if isinstance(data, dict) else None
        raise CheckpointError(f"{path}: model_type is {found!r}, this expert reads {MODEL_TYPE!r}")
    for key in section.split(".") if section else ():
        data = data.get(key)
        if not isinstance(data, dict):
            raise CheckpointError(f"{path}: there is no section `{section}`; this checkpoint has no such part")
    return data
