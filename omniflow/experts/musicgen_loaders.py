"""The components `musicgen.*` as a card names them: parts of one checkpoint folder, each read alone."""

from __future__ import annotations

import torch

from omniflow.experts.checkpoint_part import part_dtype, part_folder
from omniflow.experts.hf_text import T5Text, t5_encoder
from omniflow.experts.musicgen_config import AUDIO, DECODER, PROJECTION, TEXT, read_section
from omniflow.experts.musicgen_decoder import MusicDecoder, load_decoder
from omniflow.experts.musicgen_encodec import Encodec, load_encodec
from omniflow_compiler.schedule import Cache, Expert

UNCACHED_BYTES, BLOCK_TOKENS = 256 * 1024 * 1024, 16  # for keys and values when the card names no cache


def t5(spec: Expert, _cache: Cache | None) -> T5Text:
    """Has no attributes."""
    folder = part_folder(spec)
    config = read_section(folder, "text_encoder", "t5")
    return t5_encoder(spec, folder, config, prefix=TEXT, others=(AUDIO, DECODER, PROJECTION))


def decoder(spec: Expert, cache: Cache | None) -> MusicDecoder:
    """Its keys and values fill the card's cache."""
    return load_decoder(
        part_folder(spec),
        dtype=part_dtype(spec),
        device=torch.device(spec.device),
        cache_bytes=cache.max_bytes if cache else UNCACHED_BYTES,
        block_tokens=cache.block_tokens if cache else BLOCK_TOKENS,
    )


def encodec(spec: Expert, _cache: Cache | None) -> Encodec:
    """Has no attributes."""
    return load_encodec(part_folder(spec), dtype=part_dtype(spec), device=torch.device(spec.device), channels=1)


def encodec_stereo(spec: Expert, _cache: Cache | None) -> Encodec:
    """Has no attributes."""
    return load_encodec(part_folder(spec), dtype=part_dtype(spec), device=torch.device(spec.device), channels=2)
