"""The components `csm.*` as a card names them: parts of one checkpoint folder, each read alone."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import torch

from omniflow.experts.csm_mimi import Mimi, load_mimi
from omniflow.experts.csm_text import Backbone, Depth, load_backbone, load_depth
from omniflow_compiler.schedule import Cache, Expert

DTYPES: Mapping[str, torch.dtype] = {"float32": torch.float32, "bfloat16": torch.bfloat16}
UNCACHED_BYTES, BLOCK_TOKENS = 64 * 1024 * 1024, 16  # for keys and values when the card names no cache


def backbone(spec: Expert, cache: Cache | None) -> Backbone:
    """Its keys and values fill the card's cache."""
    num_bytes, block = _cache(cache)
    return load_backbone(
        _folder(spec), dtype=_dtype(spec), device=torch.device(spec.device), cache_bytes=num_bytes, block_tokens=block
    )


def depth(spec: Expert, cache: Cache | None) -> Depth:
    """Its keys and values fill the card's cache."""
    num_bytes, block = _cache(cache)
    return load_depth(
        _folder(spec), dtype=_dtype(spec), device=torch.device(spec.device), cache_bytes=num_bytes, block_tokens=block
    )


def mimi(spec: Expert, _cache: Cache | None) -> Mimi:
    """Has no attributes."""
    return load_mimi(_folder(spec), dtype=_dtype(spec), device=torch.device(spec.device))


def _folder(spec: Expert) -> Path:
    if spec.source is None or spec.source.startswith("$"):
        raise ValueError("it needs the folder of a checkpoint: --set weights=FOLDER")
    return Path(spec.source)


def _dtype(spec: Expert) -> torch.dtype:
    if spec.dtype not in DTYPES:
        raise ValueError(f"dtype {spec.dtype} is not one of {', '.join(DTYPES)}")
    return DTYPES[spec.dtype]


def _cache(cache: Cache | None) -> tuple[int, int]:
    return (cache.max_bytes, cache.block_tokens) if cache else (UNCACHED_BYTES, BLOCK_TOKENS)
