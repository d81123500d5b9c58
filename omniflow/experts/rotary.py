"""Queries and keys of a diffusion transformer: normalized and turned in few passes over memory, as complex numbers."""

from __future__ import annotations

import torch
from torch import Tensor, nn


def as_turns(cosines: Tensor, sines: Tensor) -> Tensor:
    """Complex [S, 1, D / 2] of cosines and sines [S, D] that hold every angle twice, side by side."""
    return torch.complex(cosines[:, ::2].contiguous(), sines[:, 1::2].contiguous())[:, None]


def norm_and_turn(x: Tensor, norm: nn.RMSNorm, turns: Tensor) -> Tensor:
    """x [B, S, ..., C] with a root mean square of one over C, weighted, then its pairs turned; [B, S, heads, D].

    C is a head or all of them; `turns` [S, 1, D / 2] are of one head.
    """
    assert norm.eps is not None
    length = torch.linalg.vector_norm(x, dim=-1, keepdim=True, dtype=torch.float32)
    scaled = (x * norm.weight).float().mul_(torch.rsqrt(length.square_().div_(x.shape[-1]).add_(norm.eps)))
    pairs = torch.view_as_complex(scaled.view(*x.shape[:2], -1, turns.shape[-1], 2))
    return torch.view_as_real(pairs.mul_(turns)).flatten(-2).to(x.dtype)
