"""Qwen3-Omni's vision tower: patches of pictures to one embedding per square of them, and what deeper layers get.

Reference: `Qwen3OmniMoeVisionEncoder` of transformers (modeling_qwen3_omni_moe.py) and its `vision_utils.py`: learned
positions resampled to the picture's grid, rotary positions over rows and columns, attention inside a frame, and
DeepStack features (arXiv:2406.04334) that the first layers of the language model add to its rows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import isqrt
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from omniflow.experts.lean import Checkpoint, CheckpointError
from omniflow.experts.qwen2_5_omni_ragged import Segments
from omniflow.experts.qwen2_5_omni_tensors import Json, fill, number, numbers, rope_theta
from omniflow.experts.qwen3_omni_config import read_section

SECTION, PREFIX = "thinker_config.vision_config", "thinker.visual."
ACTIVATIONS = {"gelu": "none", "gelu_pytorch_tanh": "tanh"}
Grid = tuple[int, int, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class VisionConfig:
    """merge: patches per side of one embedding; side: of the square of learned positions; deep: layers tapped."""

    channels: int
    patch: int
    frames: int
    width: int
    hidden: int
    heads: int
    layers: int
    merge: int
    side: int
    deep: tuple[int, ...]
    output: int
    theta: float
    gelu: str

    @staticmethod
    def parse(section: Mapping[str, Json]) -> VisionConfig:
        """Errors: CheckpointError naming the field."""
        activation = section.get("hidden_act", "gelu_pytorch_tanh")
        if activation not in ACTIVATIONS:
            raise CheckpointError(f"config.json: hidden_act {activation!r} of the vision tower is not supported")
        return VisionConfig(
            channels=section.get("in_channels", 3),
            patch=number(section, "patch_size"),
            frames=number(section, "temporal_patch_size"),
            width=number(section, "hidden_size"),
            hidden=number(section, "intermediate_size"),
            heads=number(section, "num_heads"),
            layers=number(section, "depth"),
            merge=number(section, "spatial_merge_size"),
            side=isqrt(number(section, "num_position_embeddings")),
            deep=numbers(section, "deepstack_visual_indexes"),
            output=number(section, "out_hidden_size"),
            theta=rope_theta(section),
            gelu=ACTIVATIONS[activation],
        )


class VisionAttention(nn.Module):
    """Attention with rotary positions."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.qkv, self.proj = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.heads = heads

    def forward(self, x: Tensor, segments: Segments, angles: Tensor) -> Tensor:
        query, key, value = self.qkv(x).unflatten(-1, (3, self.heads, -1)).unbind(1)
        attended: Tensor = self.proj(segments.attend(_rotate(query, angles), _rotate(key, angles), value))
        return attended


class VisionMlp(nn.Module):
    """Two layers around a GELU."""

    def __init__(self, config: VisionConfig) -> None:
        super().__init__()
        self.linear_fc1 = nn.Linear(config.width, config.hidden)
        self.linear_fc2 = nn.Linear(config.hidden, config.width)
        self.gelu = config.gelu

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.linear_fc2(F.gelu(self.linear_fc1(x), approximate=self.gelu))
        return out


class VisionBlock(nn.Module):
    """Pre-norm attention and feed-forward part."""

    def __init__(self, config: VisionConfig) -> None:
        super().__init__()
        self.norm1, self.norm2 = (nn.LayerNorm(config.width, eps=1e-6) for _ in range(2))
        self.attn = VisionAttention(config.width, config.heads)
        self.mlp = VisionMlp(config)

    def forward(self, x: Tensor, segments: Segments, angles: Tensor) -> Tensor:
        x = x + self.attn(self.norm1(x), segments, angles)
        out: Tensor = x + self.mlp(self.norm2(x))
        return out


class PatchMerger(nn.Module):
    """Squares of patches to one embedding each; the norm is over the square (`deep`) or over each patch."""

    def __init__(self, config: VisionConfig, *, deep: bool) -> None:
        super().__init__()
        merged = config.width * config.merge**2
        self.ln_q = nn.LayerNorm(merged if deep else config.width, eps=1e-6)
        self.mlp = nn.Sequential(nn.Linear(merged, merged), nn.GELU(), nn.Linear(merged, config.output))
        self.merged, self.deep = merged, deep

    def forward(self, x: Tensor) -> Tensor:
        squares = self.ln_q(x.view(-1, self.merged)) if self.deep else self.ln_q(x).view(-1, self.merged)
        out: Tensor = self.mlp(squares)
        return out


class PatchEmbed(nn.Module):
    """Flattened patches to vectors; kept as a convolution's weight."""

    def __init__(self, config: VisionConfig) -> None:
        super().__init__()
        size = (config.frames, config.patch, config.patch)
        self.proj = nn.Conv3d(config.channels, config.width, size, stride=size)

    def forward(self, pixels: Tensor) -> Tensor:
        return F.linear(pixels, self.proj.weight.flatten(1), self.proj.bias)


class VisionTower(nn.Module):
    """Role Encoder (omniflow.roles)."""

    def __init__(self, config: VisionConfig) -> None:
        super().__init__()
        self.config = config
        self.patch_embed = PatchEmbed(config)
        self.pos_embed = nn.Embedding(config.side**2, config.width)
        self.blocks = nn.ModuleList(VisionBlock(config) for _ in range(config.layers))
        self.merger = PatchMerger(config, deep=False)
        self.merger_list = nn.ModuleList(PatchMerger(config, deep=True) for _ in config.deep)

    @torch.inference_mode()
    def encode(self, rows: Sequence[Mapping[str, Tensor]]) -> list[Mapping[str, Tensor]]:
        """{"pixels": [n, patch], "grid": int64 [3] (t, h, w)} to {"embeds": [n / merge², H], "deep": [.., layers, H]}.

        Errors: ValueError for a grid that its pixels do not fill.
        """
        grids = [self._checked(row) for row in rows]
        x = self.patch_embed(torch.cat([row["pixels"].to(self.pos_embed.weight) for row in rows]))
        places = torch.cat([_places(grid, self.config.merge) for grid in grids]).to(x.device)
        sizes = torch.cat([torch.tensor([[h, w]]).expand(t * h * w, 2) for t, h, w in grids]).to(x.device)
        x = x + self._learned(places, sizes).to(x.dtype)
        angles = self._angles(places)
        segments = Segments([h * w for t, h, w in grids for _ in range(t)], device=x.device)
        deep = []
        for index, block in enumerate(self.blocks):
            x = block(x, segments, angles)
            if index in self.config.deep:
                deep.append(self.merger_list[self.config.deep.index(index)](x))
        counts = [t * h * w // self.config.merge**2 for t, h, w in grids]
        embeds, features = self.merger(x), torch.stack(deep, dim=1) if deep else x.new_zeros(sum(counts), 0, 0)
        pairs = zip(embeds.split(counts), features.split(counts), strict=True)
        return [{"embeds": own, "deep": own_deep} for own, own_deep in pairs]

    def _checked(self, row: Mapping[str, Tensor]) -> Grid:
        t, h, w = row["grid"].tolist()
        merge = self.config.merge
        if min(t, h, w) < 1 or h % merge or w % merge or len(row["pixels"]) != t * h * w:
            wanted = f"t * h * w patches with h and w multiples of {merge}"
            raise ValueError(f"a picture's grid {[t, h, w]} and its {len(row['pixels'])} patches must be {wanted}")
        return t, h, w

    def _learned(self, places: Tensor, sizes: Tensor) -> Tensor:
        """[T, width]: the square of learned positions, stretched over each picture and read between its points."""
        side = self.config.side
        spots = places.float() * (side - 1) / (sizes - 1).clamp(min=1)
        floor = spots.floor()
        taps = (floor.long()[..., None] + torch.arange(2, device=places.device)).clamp(max=side - 1)  # [T, 2, 2]
        share = torch.stack([1 - (spots - floor), spots - floor], dim=-1)
        index = (taps[:, 0, :, None] * side + taps[:, 1, None]).flatten(1)
        weight = (share[:, 0, :, None] * share[:, 1, None]).flatten(1)
        learned: Tensor = (self.pos_embed(index) * weight[..., None]).sum(1)
        return learned

    def _angles(self, places: Tensor) -> Tensor:
        """float32 [T, D / 2]: a half turns by row, a half by column."""
        half = self.config.width // self.config.heads // 2
        exponents = torch.arange(0, half, 2, dtype=torch.float32, device=places.device) / half
        return (places[..., None].float() * (1.0 / self.config.theta**exponents)).flatten(1)


def _places(grid: Grid, merge: int) -> Tensor:
    """int64 [t * h * w, 2]: row and column of each patch, square of merged patches by square."""
    t, h, w = grid
    block = (h // merge, merge, w // merge, merge)
    axes = torch.meshgrid(torch.arange(h), torch.arange(w), indexing="ij")
    return torch.stack([axis.reshape(block).transpose(1, 2).flatten() for axis in axes], dim=-1).repeat(t, 1)


def _rotate(x: Tensor, angles: Tensor) -> Tensor:
    """Rotary positions in the two-halves layout, in float32. x: [T, heads, D]; angles: [T, D / 2]."""
    cos, sin = angles.cos()[:, None], angles.sin()[:, None]
    first, second = x.float().chunk(2, dim=-1)
    return torch.cat([first * cos - second * sin, second * cos + first * sin], dim=-1).to(x.dtype)


def load_vision(folder: Path, *, dtype: torch.dtype, device: torch.device) -> VisionTower:
    """The vision tower of a checkpoint. Errors: CheckpointError."""
    with torch.device("meta"):
        tower = VisionTower(VisionConfig.parse(read_section(folder, SECTION)))
    return fill(tower, Checkpoint(folder), PREFIX, dtype=dtype, device=device)
