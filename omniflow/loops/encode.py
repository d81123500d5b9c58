"""One pass of an encoder per item: values in, features out, rows of many requests in one forward."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from omniflow.features import FeatureCache
from omniflow.loops.base import BadResult, Done, Emit, Loop, Start, Unit, Wait
from omniflow.loops.checks import problem_of
from omniflow.roles import Encoder
from omniflow_compiler.schedule import Node

Features = Mapping[str, Tensor]


@dataclass(slots=True, kw_only=True, eq=False)
class Encoding:
    """One item: its inputs by port, and whether they have been encoded; `known` are features from an earlier time."""

    inputs: Features
    is_done: bool = False
    known: Features | None = None


class Encode(Loop[Encoding]):
    """Ports in and out are the expert's own."""

    lanes: ClassVar[int] = 16

    def __init__(self, node: Node, expert: Encoder) -> None:
        self.ports = tuple(port.name for port in node.outputs)
        self.key = ("encode", id(expert))
        self.component = node.expert or ""
        self.cache = FeatureCache()  # keeps nothing until an engine shares its own

    def init(self, start: Start) -> Encoding:
        """The inputs as they are."""
        return Encoding(inputs=start.values)

    def next(self, state: Encoding) -> Unit | Wait | Done:
        """A single unit, or none when the features are known."""
        if state.is_done:
            return Done("end")
        state.known = self.cache.find(self.component, state.inputs)
        return Done("known") if state.known is not None else Unit("encoder_chunk", self.key, state)

    @torch.inference_mode()
    def execute(self, expert: Encoder, units: Sequence[Unit]) -> list[Features | BadResult]:
        """All rows in one call."""
        results = expert.encode([unit.state.inputs for unit in units])
        return [_checked(result) for result in results]

    def advance(self, state: Encoding, result: Features) -> list[Emit]:
        """Every port's features leave at once."""
        state.is_done = True
        self.cache.keep(self.component, state.inputs, result)
        return [Emit(port, result[port]) for port in self.ports]

    def finalize(self, state: Encoding) -> list[Emit]:
        """Features that were known leave here."""
        known = state.known
        return [] if known is None else [Emit(port, known[port]) for port in self.ports]


def _checked(result: Features) -> Features | BadResult:
    for port, value in result.items():
        problem = problem_of(value)
        if problem:
            return BadResult(f"{port}: {problem}")
    return result
