"""How fast this machine multiplies: what both rooflines divide by."""

from __future__ import annotations

import time

import torch

from omniflow.experts.packed import PackedLinear

SHAPES = ((128, 512, 512), (512, 512, 1536), (1024, 1024, 1024))  # rows, columns in, columns out


def product_rate(repeats: int = 15) -> float:
    """The best float32 operations a second of packed linear layers over several shapes, with torch's threads."""
    best = 0.0
    for rows, inner, outer in SHAPES:
        x, layer = torch.randn(rows, inner), PackedLinear(torch.nn.Linear(inner, outer))
        for _ in range(repeats):
            start = time.perf_counter()
            layer(x)
            best = max(best, 2 * rows * inner * outer / (time.perf_counter() - start))
    return best
