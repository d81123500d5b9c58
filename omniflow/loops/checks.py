"""Checks on what experts give back: a result that is not usable fails its own request and no other."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

NOT_FINITE = "values that are not numbers"


def are_finite(values: Sequence[Tensor]) -> list[bool]:
    """Whether each holds numbers only, neither NaN nor infinite; a device is waited for once, whatever their count."""
    found = [value.isfinite().all() for value in values]
    if len(found) == 1 or all(value.device.type == "cpu" for value in found):
        return [bool(value) for value in found]
    return [bool(value) for value in torch.stack(found).tolist()]
