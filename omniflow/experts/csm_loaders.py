"""The components `csm.*` as a card names them: parts of one checkpoint folder, each read alone."""

from __future__ import annotations

import torch

from omniflow.experts.checkpoint_part import part_dtype, part_folder
from omniflow.experts.csm_mimi import Mimi, load_mimi
from omniflow.experts.csm_text import Backbone, Depth, load_backbone, load_depth
from omniflow_compiler.schedule import Cache, Expert

UNCACHED_BYTES, BLOCK_TOKENS = 64 * 1024 * 1024, 16  # for keys and values when the card names no cache


def backbone(spec: Expert, cache: Cache | None) -> Backbone:
    """Its keys and values fill the card's cache."""
    num_bytes, block = _cache(cache)
    return load_backbone(
        part_folder(spec),
        dtype=part_dtype(spec),
        device=torch.device(spec.device),
        cache_bytes=num_bytes,
        block_tokens=block,
    )


def depth(spec: Expert, cache: Cache | None) -> Depth:
    """Its keys and values fill the card's cache."""
    num_bytes, block = _cache(cache)
    return load_depth(
        part_folder(spec),
        dtype=part_dtype(spec),
        device=torch.device(spec.device),
        cache_bytes=num_bytes,
        block_tokens=block,
    )


def mimi(spec: Expert, _cache: Cache | None) -> Mimi:
    """Has no attributes."""
    return load_mimi(part_folder(spec), dtype=part_dtype(spec), device=torch.device(spec.device))


def _cache(cache: Cache | None) -> tuple[int, int]:
    return (cache.max_bytes, cache.block_tokens) if cache else (UNCACHED_BYTES, BLOCK_TOKENS)
