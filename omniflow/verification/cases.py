"""The requests that a program is verified with: a person's own, or made up from the types of its inputs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from omniflow.values import dtype_of
from omniflow_compiler.schedule import Input, Schedule

TEXTS = (
    "Why is the sky blue? Answer in one sentence.",
    "Say hello.",
    "Name three rivers of Europe and say where each of them ends.",
    "What do bees do? Answer in two short sentences.",
    "Count to three.",
    "Tell me one fact about the ocean, please, and keep it short.",
    "What is the capital of France?",
    "Who wrote Hamlet, and when?",
)
LENGTHS = (9, 4, 17, 12, 6, 21, 8, 14)


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One request: inputs and seed."""

    inputs: Mapping[str, Any]
    seed: int


def make_cases(schedule: Schedule, count: int, given: Sequence[Mapping[str, Any]]) -> list[Case]:
    """`count` requests with seeds of their own: the given inputs first, made-up ones for what they leave open."""
    cases = []
    for i in range(count):
        own = given[i % len(given)] if given else {}
        made = {spec.name: make_input(spec, i) for spec in schedule.inputs if _says(spec) and spec.name not in own}
        cases.append(Case(inputs={**made, **own}, seed=1000 + i))
    return cases


def _says(spec: Input) -> bool:
    """Whether a request without it says nothing: it is required, or a text that is empty unless it is given."""
    return spec.required or spec.default == ""


def make_input(spec: Input, index: int) -> Any:
    """A value of the input's type; request `index` gets lengths and content of its own."""
    base = spec.type.base
    if base in ("text", "json", "record"):
        return TEXTS[index % len(TEXTS)]
    if base == "scalar":
        return index
    generator = torch.Generator().manual_seed(7 * index + 1)
    shape = [int(axis) if axis.isdigit() else LENGTHS[index % len(LENGTHS)] for axis in spec.type.axes]
    dtype = dtype_of(spec.type)
    if not dtype.is_floating_point:
        return torch.randint(0, spec.type.vocabulary or 2, shape, generator=generator).to(dtype)
    return torch.rand(shape, generator=generator, dtype=torch.float32).to(dtype)
