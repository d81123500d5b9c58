"""`min` and `max` of inputs that are numbers: in the schedule, before a run, and of stages that hand them on."""

from __future__ import annotations

from pathlib import Path

import pytest

from omniflow.errors import InputError
from omniflow.inputs import check_inputs
from omniflow.server.requests import describe
from omniflow_compiler import codes
from omniflow_compiler.pipeline import Compilation, Options, compile_file
from omniflow_compiler.reader import parse_schedule
from omniflow_compiler.schedule import Schedule
from tests.compiler.programs import check, faults

SPECS = Path(__file__).parents[3] / "specs"
CARD = "components: {tokenizer: {use: null.tokenizer}}\nloops: {}\n"
PROGRAM = """inputs:
  text: text
  height: {type: scalar, default: 720, min: 16, max: 2048}
  fps: {type: scalar, default: 24.0, max: 59.5}
outputs: {text: say.text, tokens: read.tokens}
nodes:
  say:  {op: caption, template: "{{ text }} {{ height }} {{ fps }}"}
  read: {op: tokenize, with: tokenizer}
edges: [text -> say.text, height -> say.height, fps -> say.fps, say.text -> read.text]
"""
WORKFLOW = """omniflow: 1
kind: workflow
id: w
inputs: {text: text, height: {type: scalar, max: 4096}}
outputs: {text: p.text}
stages: {p: {program: p.program.yaml}}
edges: [text -> p.text, height -> p.height]
"""


def compiled(folder: Path, change: tuple[str, str] = ("", "")) -> Compilation:
    assert change[0] in PROGRAM
    return check(folder, CARD, PROGRAM.replace(*change, 1))


def scheduled(compilation: Compilation) -> Schedule:
    assert compilation.schedule is not None, [found.message for found in compilation.report]
    return parse_schedule(compilation.schedule.to_json(), "again")


def test_a_number_outside_is_refused_with_what_it_is_and_what_is_allowed(tmp_path: Path) -> None:
    schedule = scheduled(compiled(tmp_path))
    inside = {"text": "x", "height": 2048, "fps": 59.5}
    assert check_inputs(schedule, inside) == inside
    described = {row["name"]: (row["min"], row["max"]) for row in describe(schedule)["inputs"]}
    assert described == {"text": (None, None), "height": (16, 2048), "fps": (None, 59.5)}
    refused = {"height": (16384, 2048, "most"), "fps": (60, 59.5, "most")}
    for name, (value, bound, side) in refused.items():
        message = rf"input {name} is {value}, the {side} allowed is {bound}; again declares it"
        with pytest.raises(InputError, match=message):
            check_inputs(schedule, {**inside, name: value})
    with pytest.raises(InputError, match="input height is -1, the least allowed is 16; "):
        check_inputs(schedule, {"text": "x", "height": -1})


@pytest.mark.parametrize(
    ("written", "code", "message"),
    [
        ("min: 4, max: 3", codes.BAD_VALUE, "`max` is 3, `min` is 4"),
        ("default: 5, max: 3", codes.BAD_VALUE, "the default of input `height` is 5, the most allowed is 3"),
        ("default: 5, min: 6", codes.BAD_VALUE, "the default of input `height` is 5, the least allowed is 6"),
        ("max: many", codes.WRONG_TYPE, "`max` is the text `many`, expected a number"),
    ],
)
def test_bounds_that_cannot_be_meant_are_reported(tmp_path: Path, written: str, code: codes.Code, message: str) -> None:
    (fault,) = faults(compiled(tmp_path, ("default: 720, min: 16, max: 2048", written)))
    assert fault.code == code.id
    assert fault.message.startswith(message)


def test_only_numbers_have_them(tmp_path: Path) -> None:
    (fault,) = faults(compiled(tmp_path, ("text: text\n", "text: {type: text, max: 9}\n")))
    assert (fault.code, fault.message) == (
        codes.BAD_VALUE.id, "input `text` is text, which is no number and has no `max`",
    )  # fmt: skip


def test_what_a_stage_says_counts_for_the_input_that_is_handed_on_to_it(tmp_path: Path) -> None:
    compiled(tmp_path)
    path = tmp_path / "w.workflow.yaml"
    path.write_text(WORKFLOW, encoding="utf-8")
    schedule = scheduled(compile_file(path, Options()))
    found = {spec.name: (spec.least, spec.most) for spec in schedule.inputs}
    assert found == {"text": (None, None), "height": (16.0, 2048.0), "p/fps": (None, 59.5)}
    path.write_text(WORKFLOW.replace("max: 4096", "max: 4096, default: 4000"), encoding="utf-8")
    (fault,) = faults(compile_file(path, Options()))
    assert fault.message == "the default of input `height` is 4000, the most allowed is 2048"
    assert [label.span.file.rpartition("/")[2] for label in fault.labels] == ["p.program.yaml"]


@pytest.mark.parametrize(
    "path", sorted(SPECS.glob("*/*.program.yaml")), ids=lambda path: f"{path.parent.name}.{path.stem}"
)
def test_every_number_that_a_shipped_program_takes_has_a_limit(path: Path) -> None:
    schedule = compile_file(path, Options()).schedule
    assert schedule is not None
    numbers = [spec for spec in schedule.inputs if spec.type.base == "scalar" and not isinstance(spec.default, bool)]
    assert [spec.name for spec in numbers if spec.least is None or spec.most is None] == []
    assert not any(
        name.startswith("inputs.") and name[7:] in {spec.name for spec in numbers} for name in schedule.assumed
    )
