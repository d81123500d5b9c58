"""Checks on what experts give back: a result that is not usable fails its own request and no other."""

from __future__ import annotations

from torch import Tensor


def problem_of(value: Tensor, *, num_axes: int | None = None) -> str | None:
    """What is wrong with a result tensor, or None: NaN or infinite values, or not the number of axes."""
    if num_axes is not None and value.ndim != num_axes:
        return f"shape {list(value.shape)} where {num_axes} axes are due"
    if value.is_floating_point() and not bool(value.isfinite().all()):
        return "values that are not numbers"
    return None
