"""The components `qwen3_omni.*` as a card names them: parts of one checkpoint folder, each read alone."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from omniflow.experts.checkpoint_part import part_dtype, part_folder
from omniflow.experts.lean import CheckpointError
from omniflow.experts.qwen3_omni_audio import AudioTower, load_audio
from omniflow.experts.qwen3_omni_code2wav import Code2Wav, load_code2wav
from omniflow.experts.qwen3_omni_config import read_section
from omniflow.experts.qwen3_omni_talker import Predictor, Talker, load_predictor, load_talker
from omniflow.experts.qwen3_omni_text import Thinker, load_thinker
from omniflow.experts.qwen3_omni_vision import VisionTower, load_vision
from omniflow_compiler.schedule import Cache, Expert

UNCACHED_BYTES, BLOCK_TOKENS = 64 * 1024 * 1024, 16  # for keys and values when the card names no cache


@dataclass(frozen=True, slots=True, kw_only=True)
class Voice:
    """token: int64 [1], the code that names the voice to the talker."""

    token: Tensor


class Voices:
    """Role Voices: the codes of a checkpoint's voices by name, whatever the case of letters."""

    def __init__(self, ids: Mapping[str, int]) -> None:
        self._voices = {name.lower(): Voice(token=torch.tensor([code])) for name, code in ids.items()}

    def voice(self, name: str) -> Voice:
        """Errors: ValueError naming the voices there are."""
        if name.lower() not in self._voices:
            raise ValueError(f"there is no voice {name!r}; this checkpoint has {', '.join(self._voices) or 'none'}")
        return self._voices[name.lower()]


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


def predictor(spec: Expert, cache: Cache | None) -> Predictor:
    """Its keys and values fill the card's cache."""
    num_bytes, block = _cache(cache)
    return load_predictor(
        part_folder(spec), dtype=part_dtype(spec), device=_device(spec), cache_bytes=num_bytes, block_tokens=block
    )


def audio(spec: Expert, _cache: Cache | None) -> AudioTower:
    """Has no attributes."""
    return load_audio(part_folder(spec), dtype=part_dtype(spec), device=_device(spec))


def vision(spec: Expert, _cache: Cache | None) -> VisionTower:
    """Has no attributes."""
    return load_vision(part_folder(spec), dtype=part_dtype(spec), device=_device(spec))


def code2wav(spec: Expert, _cache: Cache | None) -> Code2Wav:
    """Has no attributes."""
    return load_code2wav(part_folder(spec), dtype=part_dtype(spec), device=_device(spec))


def voices(spec: Expert, _cache: Cache | None) -> Voices:
    """Reads config.json only. Errors: CheckpointError."""
    folder = part_folder(spec)
    ids = read_section(folder, "talker_config").get("speaker_id")
    if not isinstance(ids, dict) or any(not isinstance(code, int) or code < 0 for code in ids.values()):
        raise CheckpointError(f"{folder / 'config.json'}: talker_config.speaker_id must name voices and their codes")
    return Voices(ids)


def _device(spec: Expert) -> torch.device:
    return torch.device(spec.device)


def _cache(cache: Cache | None) -> tuple[int, int]:
    return (cache.max_bytes, cache.block_tokens) if cache else (UNCACHED_BYTES, BLOCK_TOKENS)
