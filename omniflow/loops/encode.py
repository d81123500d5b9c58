"""One pass of an encoder per item: values in, features out, rows of many requests in one forward."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import torch

from omniflow.features import Features, Inputs, Shelf, is_same
from omniflow.loops.base import BadResult, Done, Emit, Loop, Start, Unit, Wait
from omniflow.loops.checks import NOT_FINITE, are_finite
from omniflow.roles import Encoder
from omniflow_compiler.schedule import Node


@dataclass(slots=True, kw_only=True, eq=False)
class Encoding:
    """One item: its inputs by port, and whether they have been encoded; `is_known` when it was before."""

    shelf: Shelf | None
    inputs: Inputs
    is_done: bool = False
    is_known: bool = False


class Encode(Loop[Encoding]):
    """Ports in and out are the expert's own."""

    lanes: ClassVar[int] = 16

    def __init__(
        self, node: Node, expert: Encoder, *, shelf: Shelf | None = None, vocabulary: int | None = None
    ) -> None:
        self.ports = tuple(port.name for port in node.outputs)
        self.key = ("encode", id(expert))
        self.read = tuple(port.name for port in node.inputs if port.type.base == "tokens") if vocabulary else ()
        self.vocabulary = vocabulary or 0  # of the ids that it reads
        self.shelf = shelf  # where features are kept, when the card says so

    def init(self, start: Start) -> Encoding:
        """The inputs as they are. Errors: ValueError for ids outside the expert's vocabulary."""
        for port in self.read:
            ids = start.values.get(port)
            if ids is not None and len(ids) and not 0 <= int(ids.min()) <= int(ids.max()) < self.vocabulary:
                raise ValueError(
                    f"{port} has ids from {int(ids.min())} to {int(ids.max())}, it knows {self.vocabulary}"
                )
        return Encoding(shelf=self.shelf, inputs=start.values)

    def next(self, state: Encoding) -> Unit | Wait | Done:
        """A single unit."""
        return Done("end") if state.is_done else Unit("encoder_chunk", self.key, state)

    @torch.inference_mode()
    def execute(self, expert: Encoder, units: Sequence[Unit]) -> list[Features | BadResult]:
        """One call for all rows whose features are not known, and one row for those that are equal."""
        rows: list[Inputs] = []
        found: list[Features | int] = []  # what is known, or its place among the rows
        for unit in units:
            state: Encoding = unit.state
            known: Features | int | None = None
            if state.shelf is not None:
                known = state.shelf.find(state.inputs)
                if known is None:
                    known = next((i for i, row in enumerate(rows) if is_same(row, state.inputs)), None)
            state.is_known = known is not None
            unit.cached = int(state.is_known)
            if known is None:
                known = len(rows)
                rows.append(state.inputs)
            found.append(known)
        results = _checked(expert.encode(rows)) if rows else []
        if len(results) != len(rows):
            raise ValueError(f"{len(results)} results for {len(rows)} rows")
        return [results[known] if isinstance(known, int) else known for known in found]

    def advance(self, state: Encoding, result: Features) -> list[Emit]:
        """Every port's features leave at once."""
        state.is_done = True
        if state.shelf is not None and not state.is_known:
            state.shelf.keep(state.inputs, result)
        return [Emit(port, result[port]) for port in self.ports]


def _checked(results: Sequence[Features]) -> list[Features | BadResult]:
    """The results, in place of those that are not numbers what is wrong with them."""
    named = [(i, port, value) for i, result in enumerate(results) for port, value in result.items()]
    named = [(i, port, value) for i, port, value in named if value.is_floating_point()]
    bad = {i: port for (i, port, _), ok in zip(named, are_finite([v for *_, v in named]), strict=True) if not ok}
    return [
        BadResult(f"{bad[i]}: {NOT_FINITE}", is_finite=False) if i in bad else result
        for i, result in enumerate(results)
    ]
