"""Costs are measured, kept beside the card, and predictions, deadlines and the report go by them."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import omniflow
from omniflow import State
from omniflow.calibration import Timing
from omniflow_compiler.costs import CostsError, parse_costs
from omniflow_compiler.pipeline import Options, compile_file
from tests.runtime.command import cli
from tests.runtime.program import PROGRAM, speech


@pytest.fixture
def program(tmp_path: Path) -> Path:
    """The null program in a folder of its own."""
    shutil.copytree(PROGRAM.parent, tmp_path / "null")
    return tmp_path / "null" / PROGRAM.name


def costs(program: Path, change: Callable[[dict[str, Any]], None] = lambda entry: None) -> Path:
    """A file that says 3 seconds for a token of the thinker."""
    entry: dict[str, Any] = {
        "use": "null.thinker", "dtype": "float32", "device": "cpu", "parameters": 10_000,
        "units": {"ar_token": {"seconds": 3.0, "count": 1, "widths": {"1": 3.0}}},
    }  # fmt: skip
    change(entry)
    body = {"omniflow": 1, "kind": "costs", "format": 1, "cards": {"null-speech": {"thinker": entry}}}
    path = program.with_name("costs.json")
    path.write_text(json.dumps(body))
    return path


def token_seconds(program: Path) -> float:
    schedule = omniflow.compile(program)
    return next(unit.seconds for unit in schedule.node("think").units if unit.kind == "ar_token")


def test_a_guided_unit_costs_two_rows_unless_it_was_measured(program: Path) -> None:
    path = program.with_name("columns.program.yaml")

    def seconds() -> dict[str, float]:
        schedule = compile_file(path, Options()).schedule
        assert schedule is not None
        return {unit.kind: unit.seconds for unit in schedule.node("compose").units}

    card = program.with_name("columns.card.yaml")
    assert seconds() == {"ar_prefill": 2e-4, "ar_token": 2e-4}
    entry = {
        "use": "null.composer", "dtype": "float32", "device": "cpu", "parameters": 10_000,
        "units": {"ar_token": {"seconds": 3.0, "count": 1, "widths": {"1": 3.0}}},
    }  # fmt: skip
    body = {"omniflow": 1, "kind": "costs", "format": 1, "cards": {"null-columns": {"composer": entry}}}
    program.with_name("costs.json").write_text(json.dumps(body))
    assert seconds() == {"ar_prefill": 2e-4, "ar_token": 3.0}
    card.write_text(card.read_text().replace("cfg: 3.0, ", ""))
    assert seconds() == {"ar_prefill": 1e-4, "ar_token": 3.0}
    image = compile_file(program.with_name("image.program.yaml"), Options()).schedule
    assert image is not None
    assert [unit.seconds for unit in image.node("paint").units] == [4e-4]  # steered away from what is not wanted


def test_what_is_measured_is_what_the_compiler_predicts(program: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli("calibrate", str(program), "--requests", "2", "--input", "prompt=Hm") == 0
    printed = capsys.readouterr().out
    for name in ("thinker", "talker", "acoustic", "vocoder"):
        assert name in printed
    body = json.loads(program.with_name("costs.json").read_text())
    entry = body["cards"]["null-speech"]["thinker"]
    assert (entry["use"], entry["dtype"], entry["device"]) == ("null.thinker", "float32", "cpu")
    unit = entry["units"]["ar_token"]
    assert unit["count"] > 0
    assert set(unit["widths"]) >= {"1", "2"}
    assert token_seconds(program) == pytest.approx(unit["seconds"], rel=1e-2)
    assert [path.name for path in program.parent.iterdir() if path.name.startswith(".")] == []


def test_costs_of_other_cards_and_components_stay(program: Path) -> None:
    path = costs(program)
    body = json.loads(path.read_text())
    body["cards"] |= {"another": {}, "null-speech": {"gone": body["cards"]["null-speech"]["thinker"]}}
    path.write_text(json.dumps(body))
    assert cli("calibrate", str(program), "--requests", "1", "--input", "prompt=Hm") == 0
    cards = json.loads(path.read_text())["cards"]
    assert set(cards) == {"another", "null-speech"}
    assert {"gone", "thinker"} <= set(cards["null-speech"])


def test_a_deadline_is_refused_by_measured_costs(program: Path) -> None:
    costs(program)
    running = omniflow.load(omniflow.compile(program))
    result = running.run({"prompt": "Hm"}, deadline=60.0)
    assert result.state is State.REFUSED
    assert "by the schedule's costs and has 60 s" in str(result.error)
    assert omniflow.load(speech()).run({"prompt": "Hm"}, deadline=60.0).state is State.DONE


@pytest.mark.parametrize(
    "changed", [{"use": "null.talker"}, {"dtype": "bfloat16"}, {"device": "cuda"}, {"parameters": 9}]
)
def test_costs_of_something_else_do_not_count(program: Path, changed: dict[str, Any]) -> None:
    costs(program)
    assert token_seconds(program) == 3.0
    costs(program, lambda entry: entry.update(changed))
    assert token_seconds(program) < 1.0


def test_the_schedule_holds_the_seconds_and_nothing_else_of_the_file(program: Path) -> None:
    plain = omniflow.compile(program)
    path = costs(program)
    first = omniflow.compile(program)
    path.write_text(json.dumps(json.loads(path.read_text()) | {"note": "measured at night"}, indent=3))
    assert omniflow.compile(program).to_json() == first.to_json()
    assert "costs.json" not in first.to_json()
    assert first.content_hash != plain.content_hash
    assert [stage.card_digest for stage in first.stages] == [stage.card_digest for stage in plain.stages]


@pytest.mark.parametrize("text", ["", "[]", '{"kind": "costs", "format": 9, "cards": {}}', "{" * 100_000, "\u2603"])
def test_a_damaged_file_is_a_warning_and_counts_as_none(program: Path, text: str) -> None:
    program.with_name("costs.json").write_text(text)
    compilation = compile_file(program, Options())
    assert [found.code for found in compilation.report] == ["OF1502"]
    assert compilation.schedule is not None


@pytest.mark.parametrize("seconds", [0, -1, "3", None, True, float("inf"), float("nan")])
def test_seconds_are_numbers_above_zero(program: Path, seconds: Any) -> None:
    path = costs(program, lambda entry: entry["units"]["ar_token"].update(seconds=seconds))
    with pytest.raises(CostsError, match="`thinker` ar_token"):
        parse_costs(path.read_text(), "null-speech")


def test_the_report_flags_what_is_off_by_more_than_two(
    program: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    costs(program)
    given = ("--input", "prompt=Hm", "--out", str(tmp_path / "out"), "--no-trace", "--report")
    assert cli("run", str(program), *given) == 0
    lines = capsys.readouterr().err.splitlines()
    token = next(line.split() for line in lines if line.startswith("think") and "ar_token" in line)
    assert token[-1] == "!"
    assert token[-2].startswith("x0.0")
    assert "3 s" in " ".join(token)
    assert lines[-1].endswith(f"omniflow calibrate {omniflow.compile(program).stages[0].place.file}")


def test_a_workflow_and_a_schedule_are_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "speech.schedule.json"
    path.write_text(speech().to_json())
    assert cli("calibrate", str(path)) == 2
    assert "name the program, not its schedule" in capsys.readouterr().err


def test_one_hiccup_counts_little() -> None:
    timing = Timing(alone={1: [0.01, 0.01, 5.0]}, batches={1: [0.01, 0.01, 5.0], 4: [0.02]})
    assert timing.unit_seconds == pytest.approx(0.01)
    assert timing.widths == {1: pytest.approx(0.01), 4: pytest.approx(0.005)}
