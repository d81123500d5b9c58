"""The components `qwen2_5_omni.*` as a card names them: parts of one checkpoint folder, each read alone."""

from __future__ import annotations

import torch

from omniflow.experts.checkpoint_part import part_dtype, part_folder
from omniflow.experts.qwen2_5_omni_audio import AudioTower, load_audio
from omniflow.experts.qwen2_5_omni_bigvgan import BigVgan, load_bigvgan
from omniflow.experts.qwen2_5_omni_dit import FlowTransformer, load_dit
from omniflow.experts.qwen2_5_omni_speaker import SpeakerEncoder, load_speaker
from omniflow.experts.qwen2_5_omni_text import Talker, Thinker, load_talker, load_thinker
from omniflow.experts.qwen2_5_omni_vision import VisionTower, load_vision
from omniflow.experts.qwen2_5_omni_voices import Voices, load_voices
from omniflow_compiler.schedule import Cache, Expert

UNCACHED_BYTES, BLOCK_TOKENS = 64 * 1024 * 1024, 16  # for keys and values when the card names no cache


def thinker(spec: Expert, cache: Cache | None) -> Thinker:
    """Its keys and values fill the card's cache."""
    num_bytes, block = _cache(cache)
    return load_thinker(
        part_folder(spec), dtype=part_dtype(spec), device=_device(spec), cache_bytes=num_bytes, block_tokens=block
    )


def talker(spec: Expert, cache: Cache | None) -> Talker:
    """Its keys and values fill the card's cache."""
    num_bytes, block = _cache(cache)
    return load_talker(
        part_folder(spec), dtype=part_dtype(spec), device=_device(spec), cache_bytes=num_bytes, block_tokens=block
    )


def audio(spec: Expert, _cache: Cache | None) -> AudioTower:
    """Has no attributes."""
    return load_audio(part_folder(spec), dtype=part_dtype(spec), device=_device(spec))


def vision(spec: Expert, _cache: Cache | None) -> VisionTower:
    """Has no attributes."""
    return load_vision(part_folder(spec), dtype=part_dtype(spec), device=_device(spec))


def voices(spec: Expert, _cache: Cache | None) -> Voices:
    """Always float32."""
    return load_voices(part_folder(spec), device=_device(spec))


def speaker(spec: Expert, _cache: Cache | None) -> SpeakerEncoder:
    """Has no attributes."""
    return load_speaker(part_folder(spec), dtype=part_dtype(spec), device=_device(spec))


def dit(spec: Expert, _cache: Cache | None) -> FlowTransformer:
    """Has no attributes."""
    return load_dit(part_folder(spec), dtype=part_dtype(spec), device=_device(spec))


def bigvgan(spec: Expert, _cache: Cache | None) -> BigVgan:
    """Has no attributes."""
    return load_bigvgan(part_folder(spec), dtype=part_dtype(spec), device=_device(spec))


def _device(spec: Expert) -> torch.device:
    return torch.device(spec.device)


def _cache(cache: Cache | None) -> tuple[int, int]:
    return (cache.max_bytes, cache.block_tokens) if cache else (UNCACHED_BYTES, BLOCK_TOKENS)
