"""The decoder of any Hugging Face folder with a Llama or Qwen shape, on the lean decoder."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import torch

from omniflow.experts import lean
from omniflow_compiler.schedule import Cache, Expert

DTYPES: Mapping[str, torch.dtype] = {"float32": torch.float32, "bfloat16": torch.bfloat16}
QUANTIZE: Mapping[str, lean.Quantize] = {"none": "none", "int8": "int8", "int4": "int4"}
UNCACHED_BYTES, BLOCK_TOKENS = 64 * 1024 * 1024, 16  # for keys and values when the card names no cache


def load_decoder(spec: Expert, cache: Cache | None) -> lean.LeanDecoder:
    """Its keys and values fill the card's cache. Errors: CheckpointError naming the file; ValueError."""
    if spec.source is None or spec.source.startswith("$"):
        raise ValueError("it needs the folder of a checkpoint: --set weights=FOLDER")
    if spec.dtype not in DTYPES:
        raise ValueError(f"dtype {spec.dtype} is not one of {', '.join(DTYPES)}")
    folder, dtype = Path(spec.source), DTYPES[spec.dtype]
    config = lean.read_config(folder)
    token_bytes = 2 * config.num_layers * config.num_kv_heads * config.head_dim * dtype.itemsize
    return lean.load(
        folder,
        dtype=dtype,
        device=torch.device(spec.device),
        config=config,
        cache_tokens=(cache.max_bytes if cache else UNCACHED_BYTES) // token_bytes,
        block_tokens=cache.block_tokens if cache else BLOCK_TOKENS,
        quantize=QUANTIZE[str(spec.attributes["quantize"])],
    )
