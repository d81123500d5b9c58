from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from omniflow_compiler.reader import map_path, parse_schedule, read_schedule
from omniflow_compiler.schedule import Schedule, ScheduleError, content_hash
from tests.compiler.plan.programs import compile_texts, random_program


@pytest.fixture
def schedule(tmp_path: Path) -> Schedule:
    compiled = compile_texts(tmp_path).schedule
    assert compiled is not None
    return compiled


@pytest.mark.parametrize("seed", range(5))
def test_a_schedule_reads_back_with_its_places(seed: int, tmp_path: Path) -> None:
    compiled = compile_texts(tmp_path, program=random_program(seed)).schedule
    assert compiled is not None
    path = tmp_path / "s.schedule.json"
    path.write_text(compiled.to_json())
    map_path(path).write_text(compiled.to_map())
    again = read_schedule(path)
    assert again.to_json() == compiled.to_json()
    assert [node.place for node in again.nodes] == [node.place for node in compiled.nodes]


def test_without_its_map_a_schedule_has_no_places(schedule: Schedule, tmp_path: Path) -> None:
    path = tmp_path / "s.schedule.json"
    path.write_text(schedule.to_json())
    assert read_schedule(path).nodes[0].place.line == 0


def drop(key: str) -> Callable[[dict[str, Any]], None]:
    return lambda body: body.pop(key)


def put(key: str, value: object) -> Callable[[dict[str, Any]], None]:
    return lambda body: body.update({key: value})


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (put("critical_seconds", 1.5), "changed after it was compiled"),
        (put("format", 99), "compile the program again"),
        (put("kind", "card"), "its `kind` is not `schedule`"),
        (drop("nodes"), "`/nodes` is missing"),
        (put("nodes", {}), "`/nodes` has the wrong type"),
        (put("program", 3), "`/program` has the wrong type"),
        (put("extra", 1), "unknown key `/extra`"),
        (put("lengths", []), "`/lengths` has the wrong type"),
    ],
)
def test_a_file_that_is_no_schedule_is_refused_with_the_reason(
    change: Callable[[dict[str, Any]], None], why: str, schedule: Schedule
) -> None:
    body = json.loads(schedule.to_json())
    change(body)
    with pytest.raises(ScheduleError, match=why):
        parse_schedule(json.dumps(body), "s.json")


@pytest.mark.parametrize("text", ["", "[]", "{", "1", '{"kind": "schedule"}', "[" * 100_000])
def test_any_other_text_is_refused(text: str) -> None:
    with pytest.raises(ScheduleError):
        parse_schedule(text, "s.json")


@pytest.mark.parametrize("name", ["../x", "/etc/x", "run", "a b", "x\x00"])
def test_an_output_that_would_be_written_elsewhere_is_refused_even_with_its_hash_made_right(
    name: str, schedule: Schedule
) -> None:
    changed = replace(schedule, outputs=(replace(schedule.outputs[0], name=name),))
    changed = replace(changed, content_hash=content_hash(changed))
    with pytest.raises(ScheduleError, match="cannot be an output's name"):
        parse_schedule(changed.to_json(), "s.json")
