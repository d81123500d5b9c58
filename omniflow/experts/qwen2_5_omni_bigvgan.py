"""Qwen2.5-Omni's vocoder: mel frames to samples with anti-aliased periodic activations (BigVGAN, Lee et al. 2023).

Reference: `Qwen2_5OmniToken2WavBigVGANModel` of transformers (modeling_qwen2_5_omni.py). Everything is a convolution of
finite reach, so a chunk with enough context decodes to what the whole clip would, and no layer computes more of the
context than the layers behind it see.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import Tensor

from omniflow.experts.lean import Checkpoint, CheckpointError
from omniflow.experts.qwen2_5_omni_bigvgan_stage import (
    ROUNDS,
    SNAKE_REACH,
    Conv,
    SmoothSnake,
    make_stage,
    pair,
    stage_reach,
)
from omniflow.experts.qwen2_5_omni_tensors import Json, number, numbers, read, read_section
from omniflow.roles import DecoderRows, DecoderState

PREFIX = "token2wav.code2wav_bigvgan_model."
BORDER = 3  # frames or samples on either side that the first and the last convolution see
QUIETEST_DB, REFERENCE_DB = -115.0, 20.0


@dataclass(frozen=True, slots=True, kw_only=True)
class VocoderConfig:
    """rates and kernels: of the upsampling layers; blocks: (kernel, dilations) of the residual blocks behind each."""

    mels: int
    width: int
    rates: tuple[int, ...]
    kernels: tuple[int, ...]
    blocks: tuple[tuple[int, tuple[int, ...]], ...]

    @property
    def hop(self) -> int:
        """Samples per frame."""
        return math.prod(self.rates)

    def needs(self) -> Sequence[int]:
        """How much around what is wanted the layers behind see: of the frames, then of what each stage gives."""
        need = BORDER + SNAKE_REACH
        needs = [need]
        for rate, kernel in zip(reversed(self.rates), reversed(self.kernels), strict=True):
            need = -(-(need + stage_reach(self.blocks) + kernel) // rate)
            needs.insert(0, need)
        return [needs[0] + BORDER, *needs[1:]]

    @staticmethod
    def parse(section: Mapping[str, Json]) -> VocoderConfig:
        """Errors: CheckpointError naming the field."""
        kernels, dilations = numbers(section, "resblock_kernel_sizes"), section.get("resblock_dilation_sizes")
        if (
            not isinstance(dilations, list)
            or len(dilations) != len(kernels)
            or any(len(d) != ROUNDS for d in dilations)
        ):
            raise CheckpointError(
                f"config.json: resblock_dilation_sizes must be {ROUNDS} numbers per kernel, not {dilations!r}"
            )
        return VocoderConfig(
            mels=number(section, "mel_dim"),
            width=number(section, "upsample_initial_channel"),
            rates=numbers(section, "upsample_rates"),
            kernels=numbers(section, "upsample_kernel_sizes"),
            blocks=tuple((kernel, tuple(own)) for kernel, own in zip(kernels, dilations, strict=True)),
        )


class BigVgan:
    """Role StreamDecoder (omniflow.roles). Frames: `mel` [left + new + right, mels], natural logarithm of amplitude."""

    def __init__(self, config: VocoderConfig, tensors: Mapping[str, Tensor]) -> None:
        self.config = config
        per_stage = len(config.blocks)
        blocks = [f"resblocks.{index}" for index in range(per_stage * len(config.rates))]
        dilations = [own for _, own in config.blocks]
        self.enter = Conv(*pair(tensors, "conv_pre"), 1)
        self.stages = [
            make_stage(tensors, f"ups.{i}.0", blocks[i * per_stage : (i + 1) * per_stage], dilations, rate=rate)
            for i, rate in enumerate(config.rates)
        ]
        self.last_snake = SmoothSnake(*(tensors[f"activation_post.act.{letter}"][None] for letter in ("alpha", "beta")))
        self.leave = tensors["conv_post.weight"]
        self.needs = config.needs()

    def open(self, *, generator: torch.Generator) -> DecoderState:
        """Nothing is drawn and nothing is carried over: context comes with the frames."""
        del generator
        return DecoderState()

    @torch.inference_mode()
    def decode(self, rows: Sequence[DecoderRows]) -> list[Tensor]:
        """Float32 samples [new * hop] per row. Rows of one shape are one forward: borders are part of the sound."""
        results: dict[int, Tensor] = {}

        def shape(i: int) -> tuple[int, int, int]:
            return rows[i].left, rows[i].new, rows[i].right

        for (left, new, _), group in groupby(sorted(range(len(rows)), key=shape), key=shape):
            members = list(group)
            mels = torch.stack([self._checked(rows[i]) for i in members])
            waves = self(mels, left, new) if new else mels.new_zeros(len(members), 0)
            results.update(zip(members, waves, strict=True))
        for row in rows:
            row.state.num_frames += row.new
        return [results[i] for i in range(len(rows))]

    def _checked(self, row: DecoderRows) -> Tensor:
        mel = row.frames["mel"]
        wanted = (row.left + row.new + row.right, self.config.mels)
        if mel.shape != wanted:
            raise ValueError(f"the vocoder's 'mel' must have shape {list(wanted)}, got {list(mel.shape)}")
        return mel

    def __call__(self, mel: Tensor, left: int, new: int) -> Tensor:
        """Float32 samples [B, new * hop] of `new` frames behind `left` of mel [B, F, mels]."""
        need, *needs = self.needs
        x, left = _around(mel.to(self.leave).transpose(1, 2), left, new, need)
        x = self.enter(_scaled(x))
        for stage, need in zip(self.stages, needs, strict=True):
            x, left, new = stage(x), left * stage.rate, new * stage.rate
            x, left = _around(x, left, new, need)
        x = F.conv1d(self.last_snake(x[None])[0], self.leave, padding=BORDER)
        return x[:, 0, left : left + new].clamp(-1.0, 1.0).float()


def _around(x: Tensor, left: int, new: int, need: int) -> tuple[Tensor, int]:
    """x [B, C, T] without what lies more than `need` from the `new` behind `left`, and where these are then."""
    start = max(left - need, 0)
    return x[..., start : left + new + need], left - start


def _scaled(mel: Tensor) -> Tensor:
    """Natural logarithm of amplitude to decibels over 115 dB, as -1 to 1."""
    per_unit, half = 20 / math.log(10), -QUIETEST_DB / 2
    return (mel * (per_unit / half) + (half - REFERENCE_DB) / half).clamp_(-1.0, 1.0)


def _shapes(config: VocoderConfig) -> Mapping[str, tuple[int, ...]]:
    """Of all tensors."""
    widths = [config.width // 2**depth for depth in range(len(config.rates) + 1)]
    shapes: dict[str, tuple[int, ...]] = {"conv_post.weight": (1, widths[-1], 2 * BORDER + 1)}

    def layer(name: str, weight: tuple[int, ...], channels: int) -> None:
        shapes.update({f"{name}.weight": weight, f"{name}.bias": (channels,)})

    def snake(name: str, channels: int) -> None:
        shapes.update({f"{name}.act.alpha": (channels,), f"{name}.act.beta": (channels,)})

    layer("conv_pre", (config.width, config.mels, 2 * BORDER + 1), config.width)
    snake("activation_post", widths[-1])
    for i, (width, kernel) in enumerate(zip(widths[1:], config.kernels, strict=True)):
        layer(f"ups.{i}.0", (widths[i], width, kernel), width)
        for j, (size, dilations) in enumerate(config.blocks, i * len(config.blocks)):
            for k in range(len(dilations)):
                for convs in ("convs1", "convs2"):
                    layer(f"resblocks.{j}.{convs}.{k}", (width, width, size), width)
            for k in range(2 * len(dilations)):
                snake(f"resblocks.{j}.activations.{k}", width)
    return shapes


def load_bigvgan(folder: Path, *, dtype: torch.dtype, device: torch.device) -> BigVgan:
    """The vocoder of a checkpoint. Errors: CheckpointError."""
    config = VocoderConfig.parse(read_section(folder, "token2wav_config.bigvgan_config"))
    return BigVgan(config, read(_shapes(config), Checkpoint(folder), PREFIX, dtype=dtype, device=device))
