"""What `omniflow verify` lets an output differ by: each stage of a workflow answers to its own card."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from torch import Tensor

from omniflow.experts.null_image import NullTextEncoder
from omniflow.verification.cases import make_cases
from omniflow.verification.tolerance import tolerances
from omniflow.verification.verify import verify
from omniflow_compiler.pipeline import Options, compile_file
from omniflow_compiler.schedule import Place, Schedule, Stage
from tests.schedules import edge, node, schedule

CARD = """omniflow: 1
kind: card
id: {name}
components: {{encoder: {{use: null.text_encoder}}}}
loops: {{see: {{kind: encode, binds: encoder}}}}
{parity}
"""
PROGRAM = """omniflow: 1
kind: program
id: {name}.see
card: {name}
inputs: {{ids: "tokens[T]"}}
outputs: {{embeds: see.embeds}}
nodes: {{see: {{loop: see}}}}
edges: [ids -> see.tokens]
"""
INNER = """omniflow: 1
kind: workflow
id: inner
inputs: {ids: "tokens[T]"}
outputs: {embeds: loose.embeds}
stages: {loose: {program: loose.program.yaml}}
edges: [ids -> loose.ids]
"""
OUTER = """omniflow: 1
kind: workflow
id: outer
inputs: {ids: "tokens[T]"}
outputs: {loose: inner.embeds, strict: strict.embeds, silent: silent.embeds}
stages:
  inner: {program: inner.workflow.yaml}
  strict: {program: strict.program.yaml}
  silent: {program: silent.program.yaml}
edges: [ids -> inner.ids, ids -> strict.ids, ids -> silent.ids]
"""


def workflow(folder: Path, *outputs: str) -> Schedule:
    for name, tolerance in {"loose": "0.5", "strict": "1e-6", "silent": ""}.items():
        parity = f"parity: {{tolerance: {tolerance}}}" if tolerance else ""
        (folder / f"{name}.card.yaml").write_text(CARD.format(name=name, parity=parity))
        (folder / f"{name}.program.yaml").write_text(PROGRAM.format(name=name))
    (folder / "inner.workflow.yaml").write_text(INNER)
    (folder / "outer.workflow.yaml").write_text(OUTER)
    compilation = compile_file(folder / "outer.workflow.yaml", Options(outputs=outputs or None))
    assert compilation.schedule is not None, [fault.message for fault in compilation.report]
    return compilation.schedule


def test_each_stage_answers_to_its_own_card(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = workflow(tmp_path)
    assert program.parity == {"tolerance": {"inner/loose": 0.5, "strict": 1e-6}}
    assert tolerances(program) == {"loose": 0.5, "strict": 1e-6, "silent": 1e-4}
    right = NullTextEncoder.encode

    def encode(self: NullTextEncoder, rows: Sequence[Mapping[str, Tensor]]) -> list[Mapping[str, Tensor]]:
        return [{port: value + 1e-2 * len(rows) for port, value in row.items()} for row in right(self, rows)]

    monkeypatch.setattr(NullTextEncoder, "encode", encode)
    rows = {row.mode: row for row in verify(program, make_cases(program, 2, []), pruned=lambda output: None)}
    wide = rows["batched, width 2"]
    assert (wide.holds, wide.tolerance) == (False, 1e-6)
    assert wide.problem.startswith("request 0: s")
    only = workflow(tmp_path, "loose")
    rows = {row.mode: row for row in verify(only, make_cases(only, 2, []), pruned=lambda output: None)}
    wide = rows["batched, width 2"]
    assert (wide.holds, wide.tolerance) == (True, 0.5)
    assert wide.difference == pytest.approx(1e-2, rel=1e-3)


def test_what_comes_of_a_stage_may_differ_by_as_much_as_those_before_it() -> None:
    nodes = [node(f"{stage}/n", "op.concat", inputs={"x": "f32[T]"}, outputs={"y": "f32[T]"}) for stage in "abc"]
    edges = [edge("x -> a/n.x", "f32[T]"), edge("a/n.y -> b/n.x", "f32[T]"), edge("x -> c/n.x", "f32[T]")]
    outputs = {stage: (f"{stage}/n.y", "f32[T]") for stage in "abc"}
    program = schedule(inputs={"x": "f32[T]"}, outputs=outputs, nodes=nodes, edges=edges)
    at = Place(file="w", line=1, column=1)
    stages = tuple(Stage(path=stage, program="p", card="c", card_digest="", place=at) for stage in "abc")
    program = replace(program, stages=stages, parity={"tolerance": {"a": 1e-2, "b": 1e-5, "c": 0.0}})
    assert tolerances(program) == {"a": 1e-2, "b": 1e-2, "c": 0.0}
    assert tolerances(replace(program, parity={"tolerance": 0.25})) == dict.fromkeys("abc", 0.25)
