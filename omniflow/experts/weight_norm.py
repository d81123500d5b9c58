"""Weight-normalised convolutions as plain ones: each pair of a length and a direction is read as its weight.

Salimans and Kingma 2016; torch names the pair `weight_g` and `weight_v`, or `original0` and `original1` below
`parametrizations.weight`.
"""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from omniflow.experts.lean import CheckpointError, TensorSource
from omniflow.experts.lean.checkpoint import Shape

PAIRS = ((".parametrizations.weight.original0", ".parametrizations.weight.original1"), (".weight_g", ".weight_v"))


class Folded:
    """A source in which `NAME.weight` stands for its pair. without: ends of names that nobody reads."""

    def __init__(self, source: TensorSource, *, without: tuple[str, ...] = ()) -> None:
        self._source = source
        self._pairs: dict[str, tuple[str, str]] = {}
        self._shapes = {name: shape for name, shape in source.shapes.items() if not name.endswith(without)}
        for length, direction in PAIRS:
            for name in [name for name in self._shapes if name.endswith(direction)]:
                stem = name.removesuffix(direction)
                self._fold(stem + length, name, f"{stem}.weight")

    def _fold(self, length: str, direction: str, weight: str) -> None:
        shape = self._shapes.pop(direction)
        wanted, found = (shape[0], *[1] * (len(shape) - 1)), self._shapes.pop(length, None)
        if found is None:
            raise CheckpointError(f"{self.place}: tensor {length} is missing")
        if found != wanted:
            file = self._source.file_of(length)
            raise CheckpointError(f"{file}: tensor {length} has shape {list(found)}, expected {list(wanted)}")
        self._pairs[weight] = length, direction
        self._shapes[weight] = shape

    @property
    def place(self) -> str:
        """What errors call the source."""
        return self._source.place

    @property
    def shapes(self) -> Mapping[str, Shape]:
        """The shape of every tensor, folded ones by the name of the weight."""
        return self._shapes

    def file_of(self, name: str) -> str:
        """The file of a tensor; of a folded one that of its direction."""
        return self._source.file_of(self._pairs[name][1] if name in self._pairs else name)

    def read(self, name: str) -> Tensor:
        """One tensor; a folded one is computed in float32."""
        if name not in self._pairs:
            return self._source.read(name)
        length, direction = (self._source.read(part).float() for part in self._pairs[name])
        return torch._weight_norm(direction, length, 0)
