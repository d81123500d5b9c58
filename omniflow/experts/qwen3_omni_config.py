"""Reading one part of a Qwen3-Omni checkpoint's config.json."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from omniflow.experts import hf_folder

Json = Any
MODEL_TYPE = "qwen3_omni_moe"


def read_section(folder: Path, section: str = "") -> Mapping[str, Json]:
    """The part of config.json at a dotted path. Errors: CheckpointError for another architecture or a missing part."""
    return hf_folder.read_section(folder, section, model_type=MODEL_TYPE)
