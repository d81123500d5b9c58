"""The components `musicgen.*` as a card names them: parts of one checkpoint folder, each read alone."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import torch

from omniflow.experts.hf_text import T5Text, t5_encoder
from omniflow.experts.musicgen_config import AUDIO, DECODER, PROJECTION, TEXT, read_section
from omniflow.experts.musicgen_decoder import MusicDecoder, load_decoder
from omniflow.experts.musicgen_encodec import Encodec, load_encodec
from omniflow_compiler.schedule import Cache, Expert

DTYPES: Mapping[str, torch.dtype] = {"float32": torch.float32, "bfloat16": torch.bfloat16}
UNCACHED_BYTES, BLOCK_TOKENS = 256 * 1024 * 1024, 16  # for keys and values when the card names no cache


def t5(spec: Expert, _cache: Cache | None) -> T5Text:
    """Has no attributes."""
    folder = _folder(spec)
    config = read_section(folder, "text_encoder", "t5")
    return t5_encoder(spec, folder, config, prefix=TEXT, others=(AUDIO, DECODER, PROJECTION))


def decoder(spec: Expert, cache: Cache | None) -> MusicDecoder:
    """Its keys and values fill the card's cache."""
    return load_decoder(
        _folder(spec),
        dtype=_dtype(spec),
        device=torch.device(spec.device),
        cache_bytes=cache.max_bytes if cache else UNCACHED_BYTES,
        block_tokens=cache.block_tokens if cache else BLOCK_TOKENS,
    )


def encodec(spec: Expert, _cache: Cache | None) -> Encodec:
    """Has no attributes."""
    return load_encodec(_folder(spec), dtype=_dtype(spec), device=torch.device(spec.device), channels=1)


def encodec_stereo(spec: Expert, _cache: Cache | None) -> Encodec:
    """Has no attributes."""
    return load_encodec(_folder(spec), dtype=_dtype(spec), device=torch.device(spec.device), channels=2)


def _folder(spec: Expert) -> Path:
    if spec.source is None or spec.source.startswith("$"):
        raise ValueError("it needs the folder of a checkpoint: --set weights=FOLDER")
    return Path(spec.source)


def _dtype(spec: Expert) -> torch.dtype:
    if spec.dtype not in DTYPES:
        raise ValueError(f"dtype {spec.dtype} is not one of {', '.join(DTYPES)}")
    return DTYPES[spec.dtype]
