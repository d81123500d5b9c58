"""The one-dimensional ConvNeXt block that hibari's acoustic model and vocoder are built of, over ragged batches."""

from __future__ import annotations

from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor, nn


class ConvNeXt(nn.Module):
    """Depthwise convolution, norm, widen, narrow, scaled residual (Liu et al. 2022; Siuzdak 2023 for audio).

    x: [B, T, C]; mask: [B, T, 1] with 1 on real steps. Steps past a row's end are zero going in and coming out, which
    is exactly what the convolution's own padding gives a row that is alone.
    """

    def __init__(self, channels: int, kernel: int, hidden: int, *, dilation: int = 1) -> None:
        super().__init__()
        reach = dilation * (kernel // 2)
        self.depthwise = nn.Conv1d(channels, channels, kernel, padding=reach, groups=channels, dilation=dilation)
        self.norm = nn.LayerNorm(channels)
        self.expand = nn.Linear(channels, hidden)
        self.contract = nn.Linear(hidden, channels)
        self.scale = nn.Parameter(torch.ones(channels))

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        y = self.norm(convolve(self.depthwise, x))
        z: Tensor = (x + self.scale * self.contract(F.gelu(self.expand(y)))) * mask
        return z


def convolve(convolution: nn.Conv1d, x: Tensor) -> Tensor:
    """A convolution along the time of x: [B, T, C]."""
    y: Tensor = convolution(x.transpose(1, 2)).transpose(1, 2)
    return y


def mask_of(lengths: Sequence[int], like: Tensor) -> Tensor:
    """[B, T, 1] in the dtype of `like`: 1 within a row's length."""
    steps = torch.arange(max(lengths), device=like.device)
    inside = steps < torch.tensor(lengths, device=like.device)[:, None]
    return inside[..., None].to(like.dtype)
