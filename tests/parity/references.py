"""What comparisons with published implementations need: tiny random weights, and recordings of what went through."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any
from unittest.mock import patch

import torch
from torch import Tensor, nn

Sizes = Mapping[str, Mapping[str, Any]]  # by part, what its configuration has in place of the smallest
SMALLEST: Sizes = {}


@dataclass(frozen=True, slots=True, kw_only=True)
class Recording:
    """One run of a reference: what went in, every tensor that crossed a hand-off, and what came out, row by row."""

    inputs: Mapping[str, Tensor]
    seed: int
    crossed: Mapping[str, Tensor]
    text: list[list[int]] = field(default_factory=list)
    codes: list[list[int]] = field(default_factory=list)
    waves: list[Tensor] = field(default_factory=list)


def stir(module: nn.Module, seed: int, *, gain: float = 1.0) -> None:
    """Random weights that keep activations near unit size, so that nothing is constant and nothing explodes."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, parameter in module.named_parameters():
            noise = torch.randn(parameter.shape, generator=generator)
            if parameter.dim() >= 2:
                parameter.copy_(noise * gain * (parameter[0].numel() ** -0.5))
            elif name.endswith("norm.weight") or "norm1" in name or "norm2" in name or "ln_" in name:
                parameter.copy_(1 + 0.1 * noise)
            else:
                parameter.copy_(0.1 * noise)


@contextmanager
def watching(owner: Any, method: str, see: Callable[[Mapping[str, Any], Any], None]) -> Iterator[None]:
    """Lets `see` look at the keyword arguments (copied) and the result of every call of a method."""
    original = getattr(owner, method)

    def watched(*args: Any, **kwargs: Any) -> Any:
        before = {name: value.clone() if isinstance(value, Tensor) else value for name, value in kwargs.items()}
        result = original(*args, **kwargs)
        see({**{str(i): value for i, value in enumerate(args)}, **before}, result)
        return result

    with patch.object(owner, method, watched):
        yield
