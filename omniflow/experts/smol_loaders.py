"""The components `smol.*` as a card names them: their weights from the user's cache, their size from the schedule."""

from __future__ import annotations

from collections.abc import Mapping

import torch

from omniflow.experts import lean, smol_acoustic, smol_lexicon, smol_talker, smol_tokenizer, smol_vocoder
from omniflow.weights import prepare
from omniflow_compiler.schedule import Cache, Expert

THINKER, TALKER, VOICE = "smollm2-135m-instruct", "g2p-bart-en-us", "hibari"
DTYPES: Mapping[str, torch.dtype] = {"float32": torch.float32, "bfloat16": torch.bfloat16}
UNCACHED_TOKENS = 8192  # room for keys and values when the card names no cache
BLOCK_TOKENS = 16


def load_tokenizer(spec: Expert, _cache: Cache | None) -> smol_tokenizer.SmolTokenizer:
    """Has no attributes."""
    return smol_tokenizer.load(prepare(THINKER), dtype=_dtype(spec), device=_device(spec))


def load_thinker(spec: Expert, cache: Cache | None) -> lean.LeanDecoder:
    """Has no attributes; its keys and values fill the card's cache."""
    folder, dtype = prepare(THINKER), _dtype(spec)
    config = lean.read_config(folder)
    token_bytes = 2 * config.num_layers * config.num_kv_heads * config.head_dim * dtype.itemsize
    return lean.load(
        folder,
        dtype=dtype,
        device=_device(spec),
        config=config,
        cache_tokens=cache.max_bytes // token_bytes if cache else UNCACHED_TOKENS,
        block_tokens=cache.block_tokens if cache else BLOCK_TOKENS,
    )


def load_lexicon(spec: Expert, _cache: Cache | None) -> smol_lexicon.SmolLexicon:
    """Has no attributes."""
    return smol_lexicon.load(prepare(VOICE), dtype=_dtype(spec), device=_device(spec))


def load_talker(spec: Expert, _cache: Cache | None) -> smol_talker.SmolTalker:
    """Has no attributes. Words are short: their keys and values are their own, not the card's cache."""
    return smol_talker.load(prepare(TALKER), dtype=_dtype(spec), device=_device(spec))


def load_acoustic(spec: Expert, _cache: Cache | None) -> smol_acoustic.SmolAcoustic:
    """Has no attributes."""
    return smol_acoustic.load(prepare(VOICE), dtype=_dtype(spec), device=_device(spec))


def load_vocoder(spec: Expert, _cache: Cache | None) -> smol_vocoder.SmolVocoder:
    """Has no attributes."""
    return smol_vocoder.load(prepare(VOICE), dtype=_dtype(spec), device=_device(spec))


def _dtype(spec: Expert) -> torch.dtype:
    if spec.dtype not in DTYPES:
        raise ValueError(f"dtype {spec.dtype} is not one of {', '.join(DTYPES)}")
    return DTYPES[spec.dtype]


def _device(spec: Expert) -> torch.device:
    return torch.device(spec.device)
