"""Qwen3-Omni's audio tower: log-mel frames to 13 embeddings per second, in chunks of a second.

A chunk is convolved alone, filled up to the longest chunk of its own sound: what other sounds of a batch look like does
not change it. Reference: `Qwen3OmniMoeAudioEncoder` of transformers (modeling_qwen3_omni_moe.py).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from omniflow.experts.lean import Checkpoint, CheckpointError
from omniflow.experts.qwen2_5_omni_ragged import Segments
from omniflow.experts.qwen2_5_omni_tensors import Json, expect, fill, number
from omniflow.experts.qwen3_omni_config import read_section

SECTION, PREFIX = "thinker_config.audio_config", "thinker.audio_tower."


@dataclass(frozen=True, slots=True, kw_only=True)
class AudioConfig:
    """chunk: mel frames that are convolved together; window: chunks that attend to each other."""

    mels: int
    width: int
    hidden: int
    heads: int
    layers: int
    channels: int
    chunk: int
    window: int
    output: int

    @staticmethod
    def parse(section: Mapping[str, Json]) -> AudioConfig:
        """Errors: CheckpointError naming the field."""
        expect(section, "activation_function", "gelu")
        chunk, inference = 2 * number(section, "n_window"), number(section, "n_window_infer")
        if inference < chunk:
            raise CheckpointError(f"config.json: n_window_infer {inference} of the audio tower is below {chunk}")
        return AudioConfig(
            mels=number(section, "num_mel_bins"),
            width=number(section, "d_model"),
            hidden=number(section, "encoder_ffn_dim"),
            heads=number(section, "encoder_attention_heads"),
            layers=number(section, "encoder_layers"),
            channels=number(section, "downsample_hidden_size"),
            chunk=chunk,
            window=inference // chunk,
            output=number(section, "output_dim"),
        )


class SelfAttention(nn.Module):
    """Full attention inside segments."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.q_proj, self.k_proj, self.v_proj, self.out_proj = (nn.Linear(width, width) for _ in range(4))
        self.heads = heads

    def forward(self, x: Tensor, segments: Segments) -> Tensor:
        query, key, value = (
            proj(x).unflatten(-1, (self.heads, -1)) for proj in (self.q_proj, self.k_proj, self.v_proj)
        )
        attended: Tensor = self.out_proj(segments.attend(query, key, value))
        return attended


class AudioLayer(nn.Module):
    """Pre-norm attention and feed-forward part."""

    def __init__(self, config: AudioConfig) -> None:
        super().__init__()
        self.self_attn = SelfAttention(config.width, config.heads)
        self.self_attn_layer_norm = nn.LayerNorm(config.width)
        self.fc1, self.fc2 = nn.Linear(config.width, config.hidden), nn.Linear(config.hidden, config.width)
        self.final_layer_norm = nn.LayerNorm(config.width)

    def forward(self, x: Tensor, segments: Segments) -> Tensor:
        x = x + self.self_attn(self.self_attn_layer_norm(x), segments)
        out: Tensor = x + self.fc2(F.gelu(self.fc1(self.final_layer_norm(x))))
        return out


class AudioTower(nn.Module):
    """Role Encoder (omniflow.roles)."""

    def __init__(self, config: AudioConfig) -> None:
        super().__init__()
        self.config = config
        self.conv2d1 = nn.Conv2d(1, config.channels, 3, stride=2, padding=1)
        self.conv2d2, self.conv2d3 = (
            nn.Conv2d(config.channels, config.channels, 3, stride=2, padding=1) for _ in range(2)
        )
        self.conv_out = nn.Linear(config.channels * _halved(config.mels), config.width, bias=False)
        self.layers = nn.ModuleList(AudioLayer(config) for _ in range(config.layers))
        self.ln_post = nn.LayerNorm(config.width)
        self.proj1, self.proj2 = nn.Linear(config.width, config.width), nn.Linear(config.width, config.output)

    @torch.inference_mode()
    def encode(self, rows: Sequence[Mapping[str, Tensor]]) -> list[Mapping[str, Tensor]]:
        """{"features": [mels, F]} to {"embeds": [A, H]} per row; A sums up each chunk's frames, halved three times.

        Errors: ValueError for features of another height or none at all.
        """
        sounds = [self._checked(row["features"]).split(self.config.chunk, dim=1) for row in rows]
        convolved = iter(self._convolve(sounds))
        tokens = [torch.cat([next(convolved) for _ in chunks]) for chunks in sounds]
        windows = [self.config.window * _halved(chunks[0].shape[1]) for chunks in sounds]
        lengths = [len(part) for own, window in zip(tokens, windows, strict=True) for part in own.split(window)]
        x = torch.cat(tokens)
        segments = Segments(lengths, device=x.device)
        for layer in self.layers:
            x = layer(x, segments)
        embeds: Tensor = self.proj2(F.gelu(self.proj1(self.ln_post(x))))
        return [{"embeds": own} for own in embeds.split([len(own) for own in tokens])]

    def _checked(self, features: Tensor) -> Tensor:
        if features.ndim != 2 or features.shape[0] != self.config.mels or not features.shape[1]:
            raise ValueError(f"audio features must be [{self.config.mels}, frames], not {list(features.shape)}")
        return features.to(self.conv2d1.weight)

    def _convolve(self, sounds: Sequence[Sequence[Tensor]]) -> list[Tensor]:
        """[n, width] of every chunk, sound by sound; chunks of equal width share a batch."""
        chunks = [(chunk, own[0].shape[1]) for own in sounds for chunk in own]
        found: dict[int, Tensor] = {}
        for width in {width for _, width in chunks}:
            mine = [i for i, (_, other) in enumerate(chunks) if other == width]
            batch = torch.stack([F.pad(chunks[i][0], (0, width - chunks[i][0].shape[1])) for i in mine])
            found.update(zip(mine, self._shrink(batch[:, None]), strict=True))
        return [found[i][: _halved(chunk.shape[1])] for i, (chunk, _) in enumerate(chunks)]

    def _shrink(self, batch: Tensor) -> Tensor:
        """[B, t, width] of [B, 1, mels, frames]."""
        for conv in (self.conv2d1, self.conv2d2, self.conv2d3):
            batch = F.gelu(conv(batch))
        x = self.conv_out(batch.permute(0, 3, 1, 2).flatten(2))
        out: Tensor = x + _sinusoids(x.shape[1], x.shape[2], x.device).to(x.dtype)
        return out


def _halved(length: int) -> int:
    """What three convolutions of stride 2 leave of a length."""
    for _ in range(3):
        length = -(-length // 2)
    return length


def _sinusoids(length: int, channels: int, device: torch.device) -> Tensor:
    """float32 [length, channels]: sines of all timescales, then cosines (Whisper)."""
    step = math.log(10000.0) / (channels // 2 - 1)
    scales = torch.exp(-step * torch.arange(channels // 2, device=device).float())
    angles = torch.arange(length, device=device)[:, None] * scales[None]
    return torch.cat([angles.sin(), angles.cos()], dim=1)


def load_audio(folder: Path, *, dtype: torch.dtype, device: torch.device) -> AudioTower:
    """The audio tower of a checkpoint. Errors: CheckpointError."""
    with torch.device("meta"):
        tower = AudioTower(AudioConfig.parse(read_section(folder, SECTION)))
    return fill(tower, Checkpoint(folder), PREFIX, dtype=dtype, device=device)
