from __future__ import annotations

from pathlib import Path

import pytest
import torch

from omniflow.errors import InputError
from omniflow.inputs import check_inputs
from omniflow.lengths import length_problems
from omniflow_compiler.schedule import Schedule
from tests.compiler.programs import check

CARD = """components: {half: {use: t.half}, m: {use: t.map}}
loops: {half: {kind: encode, binds: half}, map: {kind: encode, binds: m}}
"""
ADD = """inputs: {a: "f32[T, D]", b: "f32[S, D]"}
outputs: {y: s.sum}
nodes: {s: {op: add}}
edges: [a -> s.a, b -> s.b]
"""
HALF = """inputs: {a: "f32[T, D]", b: "f32[S, D]"}
outputs: {y: m.y}
nodes: {h: {loop: half}, s: {op: add}, m: {loop: map}}
edges: [a -> h.x, h.y -> s.a, b -> s.b, s.sum -> m.x]
"""


def compiled(folder: Path, program: str) -> Schedule:
    compilation = check(folder, CARD, program)
    assert compilation.schedule is not None, list(compilation.report)
    return compilation.schedule


def test_inputs_that_are_added_must_be_as_long(tmp_path: Path) -> None:
    schedule = compiled(tmp_path, ADD)
    fine = {"a": torch.zeros(3, 5), "b": torch.zeros(3, 5)}
    assert length_problems(schedule, fine) == []
    assert check_inputs(schedule, fine).keys() == {"a", "b"}
    with pytest.raises(InputError, match="input b has 4 elements along S, which does not fit input a"):
        check_inputs(schedule, {"a": torch.zeros(3, 5), "b": torch.zeros(4, 5)})
    assert len(length_problems(schedule, {"a": torch.zeros(3, 5), "b": torch.zeros(3, 6)})) == 1


@pytest.mark.parametrize(("first", "second", "fits"), [(6, 3, True), (6, 4, False), (7, 3, False)])
def test_lengths_may_be_related_by_a_factor(tmp_path: Path, first: int, second: int, fits: bool) -> None:
    schedule = compiled(tmp_path, HALF)
    problems = length_problems(schedule, {"a": torch.zeros(first, 16), "b": torch.zeros(second, 16)})
    assert (problems == []) == fits


def test_a_size_that_a_reader_settled_is_asked_of_the_request(tmp_path: Path) -> None:
    schedule = compiled(tmp_path, HALF)
    texts = {spec.name: spec.type.text for spec in schedule.inputs}
    assert texts == {"a": "f32[2*S, D=16]", "b": "f32[S, D=16]"}
    with pytest.raises(InputError, match="got shape"):
        check_inputs(schedule, {"a": torch.zeros(6, 15), "b": torch.zeros(3, 16)})
