"""Qwen2.5-Omni's vision tower: patches of pictures or clips to one embedding per square of merged patches.

Reference: `Qwen2_5OmniVisionEncoder` of transformers (modeling_qwen2_5_omni.py) and its `vision_utils.py`: windowed
attention in most blocks, attention over the whole frame in the others, rotary positions over rows and columns.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from omniflow.experts.lean import Checkpoint
from omniflow.experts.qwen2_5_omni_ragged import Segments
from omniflow.experts.qwen2_5_omni_tensors import Json, expect, fill, number, numbers, read_section, rope_theta

PREFIX = "thinker.visual."
NORM_EPS = 1e-6


@dataclass(frozen=True, slots=True, kw_only=True)
class VisionConfig:
    """merge: patches per side of one embedding; window: embeddings per side of an attention window."""

    channels: int
    patch: int
    frames: int
    width: int
    hidden: int
    heads: int
    layers: int
    merge: int
    window: int
    full_layers: frozenset[int]
    output: int
    theta: float

    @staticmethod
    def parse(section: Mapping[str, Json]) -> VisionConfig:
        """Errors: CheckpointError naming the field."""
        expect(section, "hidden_act", "silu")
        patch, merge = number(section, "patch_size"), number(section, "spatial_merge_size")
        return VisionConfig(
            channels=section.get("in_channels", section.get("in_chans", 3)),
            patch=patch,
            frames=number(section, "temporal_patch_size"),
            width=number(section, "hidden_size"),
            hidden=number(section, "intermediate_size"),
            heads=number(section, "num_heads"),
            layers=number(section, "depth"),
            merge=merge,
            window=number(section, "window_size") // merge // patch,
            full_layers=frozenset(numbers(section, "fullatt_block_indexes")),
            output=number(section, "out_hidden_size"),
            theta=rope_theta(section),
        )


class VisionAttention(nn.Module):
    """Attention with rotary positions."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.q, self.k, self.v = (nn.Linear(width, width) for _ in range(3))
        self.proj = nn.Linear(width, width)
        self.heads = heads

    def forward(self, x: Tensor, segments: Segments, angles: Tensor) -> Tensor:
        query, key, value = (proj(x).unflatten(-1, (self.heads, -1)) for proj in (self.q, self.k, self.v))
        attended: Tensor = self.proj(segments.attend(_rotate(query, angles), _rotate(key, angles), value))
        return attended


class GatedMlp(nn.Module):
    """SiLU-gated feed-forward part with biases."""

    def __init__(self, width: int, hidden: int) -> None:
        super().__init__()
        self.gate_proj, self.up_proj = nn.Linear(width, hidden), nn.Linear(width, hidden)
        self.down_proj = nn.Linear(hidden, width)

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.down_proj(F.silu(self.gate_proj(x)) * self.up_proj(x))
        return out


class VisionBlock(nn.Module):
    """Pre-norm attention and feed-forward part."""

    def __init__(self, config: VisionConfig) -> None:
        super().__init__()
        self.norm1 = nn.RMSNorm(config.width, eps=NORM_EPS)
        self.norm2 = nn.RMSNorm(config.width, eps=NORM_EPS)
        self.attn = VisionAttention(config.width, config.heads)
        self.mlp = GatedMlp(config.width, config.hidden)

    def forward(self, x: Tensor, segments: Segments, angles: Tensor) -> Tensor:
        x = x + self.attn(self.norm1(x), segments, angles)
        out: Tensor = x + self.mlp(self.norm2(x))
        return out


class PatchMerger(nn.Module):
    """Neighbouring patches to one embedding."""

    def __init__(self, config: VisionConfig) -> None:
        super().__init__()
        merged = config.width * config.merge**2
        self.ln_q = nn.RMSNorm(config.width, eps=NORM_EPS)
        self.mlp = nn.Sequential(nn.Linear(merged, merged), nn.GELU(), nn.Linear(merged, config.output))

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.mlp(self.ln_q(x).view(-1, self.mlp[0].in_features))
        return out


class PatchEmbed(nn.Module):
    """Flattened patches to vectors; kept as a convolution's weight."""

    def __init__(self, config: VisionConfig) -> None:
        super().__init__()
        size = (config.frames, config.patch, config.patch)
        self.proj = nn.Conv3d(config.channels, config.width, size, stride=size, bias=False)

    def forward(self, pixels: Tensor) -> Tensor:
        return F.linear(pixels, self.proj.weight.flatten(1))


class VisionTower(nn.Module):
    """Role Encoder (omniflow.roles)."""

    def __init__(self, config: VisionConfig) -> None:
        super().__init__()
        self.config = config
        self.patch_embed = PatchEmbed(config)
        self.blocks = nn.ModuleList(VisionBlock(config) for _ in range(config.layers))
        self.merger = PatchMerger(config)

    @torch.inference_mode()
    def encode(self, rows: Sequence[Mapping[str, Tensor]]) -> list[Mapping[str, Tensor]]:
        """{"pixels": [n, patch], "grid": int64 [3] (t, h, w)} to {"embeds": [n / merge², H]}, n patches.

        Errors: ValueError for a grid that its pixels do not fill.
        """
        config, device = self.config, self.patch_embed.proj.weight.device
        grids = [self._checked(row) for row in rows]
        pixels = torch.cat([row["pixels"].to(self.patch_embed.proj.weight) for row in rows])
        order, windows = _windows(grids, config)
        order = order.to(device)
        x = _regroup(self.patch_embed(pixels), order, config.merge)
        angles = _regroup(_angles(grids, config).to(device), order, config.merge)
        near = Segments(windows, device=device)
        whole = Segments([h * w for t, h, w in grids for _ in range(t)], device=device)
        for index, block in enumerate(self.blocks):
            x = block(x, whole if index in config.full_layers else near, angles)
        embeds: Tensor = self.merger(x)[torch.argsort(order)]
        counts = [t * h * w // config.merge**2 for t, h, w in grids]
        return [{"embeds": own} for own in embeds.split(counts)]

    def _checked(self, row: Mapping[str, Tensor]) -> tuple[int, int, int]:
        t, h, w = row["grid"].tolist()
        merge = self.config.merge
        if min(t, h, w) < 1 or h % merge or w % merge or len(row["pixels"]) != t * h * w:
            wanted = f"t * h * w patches with h and w multiples of {merge}"
            raise ValueError(f"a picture's grid {[t, h, w]} and its {len(row['pixels'])} patches must be {wanted}")
        return t, h, w


def _rotate(x: Tensor, angles: Tensor) -> Tensor:
    """Rotary positions in the two-halves layout, in float32. x: [T, heads, D]; angles: [T, D / 2]."""
    cos, sin = angles.cos()[:, None], angles.sin()[:, None]
    first, second = x.float().chunk(2, dim=-1)
    return torch.cat([first * cos - second * sin, second * cos + first * sin], dim=-1).to(x.dtype)


def _regroup(x: Tensor, order: Tensor, merge: int) -> Tensor:
    """[T, ...] with groups of merge² rows in another order."""
    return x.reshape(-1, merge**2, x.shape[1])[order].flatten(0, 1)


def _angles(grids: Sequence[tuple[int, int, int]], config: VisionConfig) -> Tensor:
    """float32 [T, D / 2] of patches in merge-block order: a half turns by row, a half by column."""
    half = config.width // config.heads // 2
    frequencies = 1.0 / (config.theta ** (torch.arange(0, half, 2, dtype=torch.float32) / half))
    parts = []
    for t, h, w in grids:
        rows, columns = torch.meshgrid(torch.arange(h), torch.arange(w), indexing="ij")
        block = (h // config.merge, config.merge, w // config.merge, config.merge)
        places = torch.stack([x.reshape(block).transpose(1, 2).flatten() for x in (rows, columns)], dim=-1)
        parts.append(places.repeat(t, 1))
    return (torch.cat(parts)[..., None].float() * frequencies).flatten(1)


def _windows(grids: Sequence[tuple[int, int, int]], config: VisionConfig) -> tuple[Tensor, list[int]]:
    """Embeddings ordered window by window, and how many patches each window has."""
    orders, counts, offset = [], [], 0
    for t, h, w in grids:
        rows, columns = h // config.merge, w // config.merge
        index = torch.arange(t * rows * columns).view(t, rows, columns)
        for frame in index:
            for band in frame.split(config.window, dim=0):
                for window in band.split(config.window, dim=1):
                    orders.append(window.flatten() + offset)
                    counts.append(window.numel() * config.merge**2)
        offset += index.numel()
    return torch.cat(orders), counts


def load_vision(folder: Path, *, dtype: torch.dtype, device: torch.device) -> VisionTower:
    """The vision tower of a checkpoint. Errors: CheckpointError."""
    config = VisionConfig.parse(read_section(folder, "thinker_config.vision_config"))
    with torch.device("meta"):
        tower = VisionTower(config)
    return fill(tower, Checkpoint(folder), PREFIX, dtype=dtype, device=device)
