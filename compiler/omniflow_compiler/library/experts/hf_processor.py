"""What a Hugging Face model folder prescribes for sounds and pictures before an encoder sees them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from omniflow_compiler.library.signature import ExpertSignature, FromConfig

_FILE = "preprocessor_config.json"
_COLOURS = 3


def _numbers(config: Any) -> int | None:
    """Numbers of a flattened patch: colours, repeated in time, of a square of pixels."""
    if not isinstance(config, Mapping):
        return None
    frames, patch = config.get("temporal_patch_size"), config.get("patch_size")
    return _COLOURS * frames * patch**2 if isinstance(frames, int) and isinstance(patch, int) else None


def _rows(config: Any) -> int | None:
    """Patches of the largest picture that is let through."""
    if not isinstance(config, Mapping):
        return None
    size = config.get("size")
    most = config.get("max_pixels", size.get("longest_edge") if isinstance(size, Mapping) else None)
    patch = config.get("patch_size")
    return most // patch**2 if isinstance(most, int) and isinstance(patch, int) and patch else None


SIGNATURES = (
    ExpertSignature(
        use="hf.log_mel",
        role="feature_extractor",
        needs_source=True,
        sizes={
            "bands": FromConfig(path="feature_size", file=_FILE),
            "hop": FromConfig(path="hop_length", file=_FILE, default=160),
        },
        doc="Log-mel frames as the folder's preprocessor_config.json prescribes them (`WhisperFeatureExtractor`).",
    ),
    ExpertSignature(
        use="hf.patches",
        role="image_processor",
        needs_source=True,
        sizes={
            "patch": FromConfig(path="", file=_FILE, read=_numbers),
            "most": FromConfig(path="", file=_FILE, read=_rows, default=65536),
        },
        doc="Patches of pictures as the folder's preprocessor_config.json prescribes them (`Qwen2VLImageProcessor`).",
    ),
)
