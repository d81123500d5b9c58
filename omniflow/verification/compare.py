"""Compares outputs of two runs: bit-equal, token-equal, or by their largest difference."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch

BITS, TOKENS, CLOSE = "bit-equal", "token-equal", "max difference"


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """How two values of one output relate. `difference` is the largest absolute one of floats, 0 when all bits agree,
    infinite when shapes, tokens or texts differ.
    """

    output: str
    kind: str
    difference: float

    def holds(self, tolerance: float) -> bool:
        """Whether the values are equal within the tolerance; tokens and texts have none."""
        return self.difference <= tolerance


def compare_outputs(expected: Mapping[str, Any], found: Mapping[str, Any]) -> list[Comparison]:
    """A comparison per output that both runs have; an output that only one has differs."""
    names = sorted({*expected, *found})
    return [
        compare(name, expected[name], found[name])
        if name in expected and name in found
        else Comparison(output=name, kind="missing", difference=float("inf"))
        for name in names
    ]


def compare(name: str, expected: Any, found: Any) -> Comparison:
    """Compares two values of one output; lists (outputs of items) item by item."""
    if isinstance(expected, torch.Tensor) and isinstance(found, torch.Tensor):
        return _tensors(name, expected, found)
    if _is_list(expected) and _is_list(found) and len(expected) == len(found):
        parts = [compare(name, a, b) for a, b in zip(expected, found, strict=True)]
        worst = max(parts, key=lambda part: part.difference, default=None)
        return worst or Comparison(output=name, kind=BITS, difference=0.0)
    same = expected == found
    return Comparison(output=name, kind=TOKENS, difference=0.0 if same else float("inf"))


def _is_list(value: Any) -> bool:
    return isinstance(value, Sequence) and not isinstance(value, str)


def _tensors(name: str, expected: torch.Tensor, found: torch.Tensor) -> Comparison:
    kind = CLOSE if expected.is_floating_point() else TOKENS
    if expected.shape != found.shape or expected.dtype != found.dtype:
        return Comparison(output=name, kind=kind, difference=float("inf"))
    if torch.equal(expected, found):
        return Comparison(output=name, kind=BITS, difference=0.0)
    if kind == TOKENS:
        return Comparison(output=name, kind=kind, difference=float("inf"))
    difference = (expected.double() - found.double()).abs().max().item()
    return Comparison(output=name, kind=kind, difference=float("inf") if difference != difference else difference)
