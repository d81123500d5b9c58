"""Qwen2.5-Omni's audio tower: log-mel frames to one embedding per 40 ms, in chunks that attend to themselves only.

Reference: `Qwen2_5OmniAudioEncoder` of transformers (modeling_qwen2_5_omni.py).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.utils.rnn import pad_sequence

from omniflow.experts.lean import Checkpoint
from omniflow.experts.qwen2_5_omni_ragged import Segments
from omniflow.experts.qwen2_5_omni_tensors import Json, expect, fill, number, read_section

PREFIX = "thinker.audio_tower."


@dataclass(frozen=True, slots=True, kw_only=True)
class AudioConfig:
    """chunk: mel frames that attend to each other."""

    mels: int
    width: int
    hidden: int
    heads: int
    layers: int
    positions: int
    chunk: int
    output: int

    @staticmethod
    def parse(section: Mapping[str, Json]) -> AudioConfig:
        """Errors: CheckpointError naming the field."""
        expect(section, "activation_function", "gelu")
        return AudioConfig(
            mels=number(section, "num_mel_bins"),
            width=number(section, "d_model"),
            hidden=number(section, "encoder_ffn_dim"),
            heads=number(section, "encoder_attention_heads"),
            layers=number(section, "encoder_layers"),
            positions=number(section, "max_source_positions"),
            chunk=2 * number(section, "n_window"),
            output=number(section, "output_dim"),
        )


class SelfAttention(nn.Module):
    """Keys have no bias."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.q_proj, self.v_proj = nn.Linear(width, width), nn.Linear(width, width)
        self.k_proj = nn.Linear(width, width, bias=False)
        self.out_proj = nn.Linear(width, width)
        self.heads = heads

    def forward(self, x: Tensor, segments: Segments) -> Tensor:
        parts = [proj(x).unflatten(-1, (self.heads, -1)) for proj in (self.q_proj, self.k_proj, self.v_proj)]
        attended: Tensor = self.out_proj(segments.attend(parts[0], parts[1], parts[2]))
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
        self.conv1 = nn.Conv1d(config.mels, config.width, 3, padding=1)
        self.conv2 = nn.Conv1d(config.width, config.width, 3, stride=2, padding=1)
        self.layers = nn.ModuleList(AudioLayer(config) for _ in range(config.layers))
        self.ln_post = nn.LayerNorm(config.width)
        self.proj = nn.Linear(config.width, config.output)

    @torch.inference_mode()
    def encode(self, rows: Sequence[Mapping[str, Tensor]]) -> list[Mapping[str, Tensor]]:
        """{"features": [mels, F]} to {"embeds": [A, H]} per row, A = ((F + 1) // 2) // 2.

        Errors: ValueError for features of another height, or too few frames for one embedding.
        """
        chunks = [chunk for row in rows for chunk in self._checked(row["features"]).split(self.config.chunk, dim=1)]
        lengths = [-(-chunk.shape[1] // 2) for chunk in chunks]  # after the strided convolution
        x = self._convolve(chunks)
        segments = Segments(lengths, device=x.device)
        x = segments.pack(x)
        for layer in self.layers:
            x = layer(x, segments)
        frames = [-(-row["features"].shape[1] // 2) for row in rows]
        pooled = [own[: n // 2 * 2].unflatten(0, (-1, 2)) for own, n in zip(x.split(frames), frames, strict=True)]
        merged = [(pair[:, 0] + pair[:, 1]) / 2 for pair in pooled]
        embeds: Tensor = self.proj(self.ln_post(torch.cat(merged)))
        return [{"embeds": own} for own in embeds.split([len(part) for part in merged])]

    def _checked(self, features: Tensor) -> Tensor:
        if features.ndim != 2 or features.shape[0] != self.config.mels or features.shape[1] < 3:
            raise ValueError(
                f"audio features must be [{self.config.mels}, 3 or more frames], not {list(features.shape)}"
            )
        return features.to(self.conv1.weight)

    def _convolve(self, chunks: Sequence[Tensor]) -> Tensor:
        """[C, L, width] of chunks [mels, n]; frames that a chunk does not have are silent after each convolution."""
        features = pad_sequence([chunk.T for chunk in chunks], batch_first=True).transpose(1, 2)
        sizes = torch.tensor([chunk.shape[1] for chunk in chunks], device=features.device)
        mask = (torch.arange(features.shape[2], device=features.device) < sizes[:, None])[:, None]
        x = F.gelu(self.conv2(F.gelu(self.conv1(features)) * mask)).transpose(1, 2)
        out: Tensor = x + _sinusoids(x.shape[1], x.shape[2], x.device).to(x.dtype)
        return out


def _sinusoids(length: int, channels: int, device: torch.device) -> Tensor:
    """float32 [length, channels]: sines of all timescales, then cosines (Whisper)."""
    step = math.log(10000.0) / (channels // 2 - 1)
    scales = torch.exp(-step * torch.arange(channels // 2, device=device).float())
    angles = torch.arange(length, device=device)[:, None] * scales[None]
    return torch.cat([angles.sin(), angles.cos()], dim=1)


def load_audio(folder: Path, *, dtype: torch.dtype, device: torch.device) -> AudioTower:
    """The audio tower of a checkpoint. Errors: CheckpointError."""
    config = AudioConfig.parse(read_section(folder, "thinker_config.audio_config"))
    with torch.device("meta"):
        tower = AudioTower(config)
    return fill(tower, Checkpoint(folder), PREFIX, dtype=dtype, device=device, others=("audio_bos_eos_token.",))
