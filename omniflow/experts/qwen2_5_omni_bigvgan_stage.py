"""One stage of Qwen2.5-Omni's vocoder: an upsampling layer and residual blocks, whose activations run together.

Reference: `AMPBlock` and `TorchActivation1d` of transformers (modeling_qwen2_5_omni.py).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

RATIO, TAPS = 2, 12  # of the filters around each activation
SNAKE_REACH = TAPS // 2  # samples on either side that an activation sees
ROUNDS = 3  # pairs of convolutions in a residual block
TINY = 1e-9
Dilations = tuple[int, ...]


class SmoothSnake:
    """x + sin²(a x) / b with a and b per channel, at twice the rate, so that what it folds over is filtered out."""

    def __init__(self, alpha: Tensor, beta: Tensor) -> None:
        """alpha, beta: [blocks, C] in log scale."""
        self.rate, self.share = (x[:, None, :, None] for x in (alpha.exp(), 1.0 / (beta.exp() + TINY)))
        taps = _low_pass().to(alpha).expand(alpha.shape[1], 1, -1)
        self.up, self.down = (RATIO * taps).contiguous(), taps.contiguous()

    def __call__(self, x: Tensor) -> Tensor:
        """x and what is returned: [blocks, B, C, T]."""
        around = TAPS // RATIO - 1
        edge = around * RATIO + (TAPS - RATIO) // 2
        wide = F.pad(x.flatten(0, 1), (around, around), mode="replicate")
        fine = F.conv_transpose1d(wide, self.up, stride=RATIO, padding=edge, groups=len(self.up))
        fine = fine.view(*x.shape[:3], -1)
        fine = torch.addcmul(fine, self.share, (fine * self.rate).sin_().square_()).flatten(0, 1)
        fine = F.pad(fine, (TAPS // 2 - 1, TAPS // 2), mode="replicate")
        return F.conv1d(fine, self.down, stride=RATIO, groups=len(self.down)).view(x.shape)


def _low_pass() -> Tensor:
    """float32 [1, 1, TAPS]: a Kaiser-windowed sinc at half the rate, of unit sum."""
    cutoff, transition = 0.5 / RATIO, 4 * 0.6 / RATIO
    attenuation = 2.285 * (TAPS // 2 - 1) * math.pi * transition + 7.95
    beta = 0.1102 * (attenuation - 8.7)  # Kaiser's formula from 50 dB on
    window = torch.kaiser_window(TAPS, beta=beta, periodic=False, dtype=torch.float32)
    taps = 2 * cutoff * window * torch.sinc(2 * cutoff * (torch.arange(-TAPS // 2, TAPS // 2) + 0.5))
    return (taps / taps.sum()).view(1, 1, TAPS)


class Conv(NamedTuple):
    """A convolution that keeps the length."""

    weight: Tensor
    bias: Tensor
    dilation: int

    def __call__(self, x: Tensor) -> Tensor:
        border = self.dilation * (self.weight.shape[2] - 1) // 2
        return F.conv1d(x, self.weight, self.bias, padding=border, dilation=self.dilation)


class Round(NamedTuple):
    """One pair of convolutions of every residual block; the first of a pair is dilated."""

    before: SmoothSnake
    first: Sequence[Conv]
    between: SmoothSnake
    second: Sequence[Conv]

    def __call__(self, x: Tensor) -> Tensor:
        """x and what is returned: [blocks, B, C, T]."""
        return x + _each(self.second, self.between(_each(self.first, self.before(x))))


def _each(convs: Sequence[Conv], x: Tensor) -> Tensor:
    return torch.stack([conv(own) for conv, own in zip(convs, x.unbind(), strict=True)])


@dataclass(frozen=True, slots=True, kw_only=True)
class Stage:
    """rate: of the upsampling layer, whose weight is `up`."""

    rate: int
    up: tuple[Tensor, Tensor]
    rounds: Sequence[Round]

    def __call__(self, x: Tensor) -> Tensor:
        """[B, C, T] to [B, C / 2, rate * T]."""
        border = (self.up[0].shape[2] - self.rate) // 2
        up = F.conv_transpose1d(x, *self.up, stride=self.rate, padding=border)
        paths = up.expand(len(self.rounds[0].first), *up.shape)
        for step in self.rounds:
            paths = step(paths)
        return paths.mean(0)


def stage_reach(blocks: Sequence[tuple[int, Dilations]]) -> int:
    """Samples on either side that residual blocks of these kernels and dilations see."""
    return max(
        sum((dilation + 1) * (kernel - 1) // 2 + 2 * SNAKE_REACH for dilation in dilations)
        for kernel, dilations in blocks
    )


def make_stage(
    tensors: Mapping[str, Tensor], up: str, names: Sequence[str], dilations: Sequence[Dilations], *, rate: int
) -> Stage:
    """The stage of an upsampling layer and of residual blocks with these names."""

    def snake(index: int) -> SmoothSnake:
        at = [f"{name}.activations.{index}.act" for name in names]
        return SmoothSnake(*(torch.stack([tensors[f"{own}.{letter}"] for own in at]) for letter in ("alpha", "beta")))

    def convs(kind: str, index: int, own: Sequence[int]) -> list[Conv]:
        at = [f"{name}.{kind}.{index}" for name in names]
        return [Conv(*pair(tensors, name), dilation) for name, dilation in zip(at, own, strict=True)]

    rounds = [
        Round(
            before=snake(2 * index),
            first=convs("convs1", index, [own[index] for own in dilations]),
            between=snake(2 * index + 1),
            second=convs("convs2", index, [1] * len(names)),
        )
        for index in range(ROUNDS)
    ]
    return Stage(rate=rate, up=pair(tensors, up), rounds=rounds)


def pair(tensors: Mapping[str, Tensor], name: str) -> tuple[Tensor, Tensor]:
    """A layer's weight and bias."""
    return tensors[f"{name}.weight"], tensors[f"{name}.bias"]
