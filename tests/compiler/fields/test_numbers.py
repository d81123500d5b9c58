"""`$component.number`: what a checkpoint tells, as a value in loops and ops."""

from __future__ import annotations

import json
from pathlib import Path

from omniflow_compiler.library.library import BUILT_IN
from omniflow_compiler.library.signature import FromConfig
from omniflow_compiler.pipeline import Compilation, Options, compile_file
from tests.compiler.programs import EXPERTS, TOKENIZER, check, expert, faults, line_of

MARKED = expert(
    "t.marked", "ar_decode", {"prompt": "tokens[P] < vocabulary"}, {"tokens~": "tokens[T] < vocabulary"},
    vocabulary=317, end=FromConfig(path="marks.end", default=7),
)  # fmt: skip
CARD = """components: {%s, lm: {use: t.marked, from: %s}}
loops: {say: {kind: ar_decode, binds: lm, stop: [$lm.end, 3], max_tokens: 9}}
"""
PROGRAM = """inputs: {text: text}
outputs: {text: show.text}
nodes:
  read: {op: tokenize, with: tokenizer}
  say:  {loop: say}
  few:  {op: clamp, limit: $lm.vocabulary, fill: $lm.end}
  show: {op: detokenize, with: tokenizer}
edges:
  - text -> read.text
  - read.tokens -> say.prompt
  - say.tokens ~> few.tokens
  - few.tokens ~> show.tokens
"""


def _check(folder: Path, card: str = CARD, program: str = PROGRAM) -> Compilation:
    return check(folder, card % (TOKENIZER, folder), program, experts=(*EXPERTS, MARKED))


def test_numbers_of_the_checkpoint_stand_for_their_names(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps({"marks": {"end": 42}}), encoding="utf-8")
    schedule = _check(tmp_path).schedule
    assert schedule is not None
    assert list(schedule.node("say").attributes["stop"]) == [42, 3]
    assert schedule.node("few").attributes["fill"] == 42
    assert schedule.node("few").attributes["limit"] == 317


def test_without_a_checkpoint_the_signatures_own_number_stands_there(tmp_path: Path) -> None:
    schedule = _check(tmp_path).schedule
    assert schedule is not None
    assert list(schedule.node("say").attributes["stop"]) == [7, 3]


def test_an_id_that_the_checkpoint_puts_outside_the_vocabulary_is_found(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps({"marks": {"end": 317}}), encoding="utf-8")
    found = faults(_check(tmp_path))
    assert any("names id 317, the vocabulary of `lm` has 317 ids" in fault.message for fault in found)


def test_a_number_that_is_not_there_names_the_nearest(tmp_path: Path) -> None:
    compilation = _check(tmp_path, card=CARD.replace("$lm.end", "$lm.ent"))
    (fault,) = faults(compilation)
    assert fault.message == "unknown number `ent` of `t.marked`"
    assert any("end" in line for line in fault.help)
    assert "$lm.ent" in line_of(compilation, fault)


def test_a_component_that_is_not_there_names_the_nearest(tmp_path: Path) -> None:
    compilation = _check(tmp_path, program=PROGRAM.replace("$lm.vocabulary", "$lmm.vocabulary"))
    assert [fault.message for fault in faults(compilation)] == ["unknown component `lmm`"]


def test_in_a_workflow_numbers_are_those_of_the_stages_own_component(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps({"marks": {"end": 42}}), encoding="utf-8")
    _check(tmp_path)  # writes the card and the program
    path = tmp_path / "both.workflow.yaml"
    path.write_text(
        "omniflow: 1\nkind: workflow\nid: both\ninputs: {text: text}\noutputs: {text: b.text}\n"
        "stages: {a: {program: p.program.yaml}, b: {program: p.program.yaml}}\n"
        "edges: [text -> a.text, a.text -> b.text]\n",
        encoding="utf-8",
    )
    compilation = compile_file(path, Options(library=BUILT_IN.with_experts((*EXPERTS, MARKED))))
    assert compilation.schedule is not None, list(compilation.report)
    assert list(compilation.schedule.node("b/say").attributes["stop"]) == [42, 3]
