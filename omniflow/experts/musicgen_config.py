"""The parts of a MusicGen checkpoint: sections of config.json, and where each part's tensors are."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from omniflow.experts.hf_folder import read_json
from omniflow.experts.lean import CheckpointError

Json = Any
MODEL_TYPE = "musicgen"
TEXT, AUDIO, DECODER, PROJECTION = "text_encoder.", "audio_encoder.", "decoder.", "enc_to_dec_proj."


def read_section(folder: Path, name: str, kind: str) -> Mapping[str, Json]:
    """The section of a part. Errors: CheckpointError for another architecture, of the whole or of the part."""
    path = folder / "config.json"
    root = read_json(path)
    if root.get("model_type") != MODEL_TYPE:
        raise CheckpointError(f"{path}: model_type is {root.get('model_type')!r}, this expert reads {MODEL_TYPE!r}")
    section = root.get(name)
    if not isinstance(section, dict):
        raise CheckpointError(f"{path}: there is no section `{name}`")
    if section.get("model_type") != kind:
        found = section.get("model_type")
        raise CheckpointError(f"{path}: model_type of {name} is {found!r}, this expert reads {kind!r}")
    return section
