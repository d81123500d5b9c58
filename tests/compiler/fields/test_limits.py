"""Limits of inputs, and lengths that follow from them: in the schedule, in its plan, and before a run."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from omniflow.errors import InputError
from omniflow.inputs import check_inputs
from omniflow_compiler import codes
from omniflow_compiler.library.signature import ExpertSignature
from omniflow_compiler.pipeline import Compilation
from omniflow_compiler.reader import parse_schedule
from omniflow_compiler.schedule import Schedule
from tests.compiler.programs import check, faults, ports

CARD = """components:
  ears: {use: t.ears}
loops:
  hear: {kind: encode, binds: ears}
"""
PROGRAM = """inputs:
  audio: {type: "f32[N*, S, 2] @ 100 Hz", limits: {N: 3, S: 800}}
  rows: {type: "f32[R, 2]", limits: {R: 5}}
outputs: {heard: join.samples, whole: all.whole}
nodes:
  hear: {loop: hear, each: true}
  join: {op: join}
  all:  {op: concat}
edges:
  - audio ~> hear.x
  - hear.y ~> join.items
  - rows -> all.parts
"""


def ears(**most: str) -> ExpertSignature:
    return ExpertSignature(
        use="t.ears", role="ears", doc="Gives some rows for its frames.", sizes={"hop": 4}, most=most,
        serves={"encode": ports({"x": "f32[T, D]"}, {"y": "f32[A, D]"})},
    )  # fmt: skip


def compiled(folder: Path, change: tuple[str, str] = ("", ""), **most: str) -> Compilation:
    assert change[0] in PROGRAM
    return check(folder, CARD, PROGRAM.replace(*change, 1), experts=[ears(**most)])


def scheduled(folder: Path, **most: str) -> Schedule:
    schedule = compiled(folder, **most).schedule
    assert schedule is not None
    return parse_schedule(schedule.to_json(), "again")


def test_limits_arrive_in_the_schedule_and_bound_what_follows_from_them(tmp_path: Path) -> None:
    schedule = scheduled(tmp_path, A="T/{hop} + 1")
    assert {spec.name: spec.limits for spec in schedule.inputs} == {"audio": (3, 800, 0), "rows": (5, 0)}
    assert schedule.lengths["hear.A"] == 201
    assert schedule.lengths["join.S2"] == 603
    (channel,) = (found for found in schedule.channels if found.node == "hear")
    assert channel.capacity == 3


def test_what_a_signature_does_not_say_is_assumed(tmp_path: Path) -> None:
    assert scheduled(tmp_path).lengths["hear.A"] == 512


@pytest.mark.parametrize(
    ("written", "code", "message"),
    [
        ("{N: 3, T: 800}", codes.UNKNOWN_KEY, "unknown key `T` in the limits of input `audio`, which is f32[N*, S, 2]"),
        ("{N: 0, S: 800}", codes.BAD_VALUE, "`N` is `0`, the least allowed is 1"),
        ("{N: 3, S: many}", codes.WRONG_TYPE, "`S` is the text `many`, expected a whole number"),
    ],
)
def test_limits_that_cannot_be_meant_are_reported(tmp_path: Path, written: str, code: codes.Code, message: str) -> None:
    (fault,) = faults(compiled(tmp_path, ("{N: 3, S: 800}", written)))
    assert fault.code == code.id
    assert fault.message.startswith(message)


def test_a_request_over_a_limit_is_refused_with_what_it_has_and_what_is_let_in(tmp_path: Path) -> None:
    schedule = scheduled(tmp_path)
    sound, rows = torch.zeros(800, 2), torch.zeros(5, 2)
    assert len(check_inputs(schedule, {"audio": [sound] * 3, "rows": rows})["audio"]) == 3
    refused = {
        r"input audio has 801 elements along S \(8\.01 s\), at most 800 \(8\.00 s\)": ([torch.zeros(801, 2)], rows),
        "input audio has 4 elements along N, at most 3; ": ([sound] * 4, rows),
        "input rows has 6 elements along R, at most 5": ([], torch.zeros(6, 2)),
    }
    for message, (audio, more) in refused.items():
        with pytest.raises(InputError, match=message):
            check_inputs(schedule, {"audio": audio, "rows": more})
