"""`omniflow run`: files, lines and exit codes."""

from __future__ import annotations

import json
import os
import signal
import struct
import time
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import soundfile
import torch

from omniflow import Engine, artefacts
from omniflow.commands import run as command
from omniflow.commands.progress import PlainProgress
from omniflow.files import WriteError
from tests.runtime.program import PROMPTS, alone, speech

ROOT = Path(__file__).parents[2]


def run(out: Path, inputs: Mapping[str, str] | None = None, **changes: Any) -> int:
    options: dict[str, Any] = {"seed": 0, "profile": "serve", "as_json": False, "trace": True} | changes
    program = options.pop("program", None) or speech()
    return command.run(program, inputs={"prompt": PROMPTS[0]} if inputs is None else inputs, out=out, **options)


def test_a_run_leaves_text_sound_trace_and_record(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(tmp_path / "out") == 0
    text, audio = alone(PROMPTS[0])
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == [
        "audio.wav",
        "run.json",
        "text.txt",
        "trace.json",
    ]
    assert (tmp_path / "out" / "text.txt").read_text() == text
    samples, rate = soundfile.read(str(tmp_path / "out" / "audio.wav"), dtype="float32")
    assert rate == 24_000
    assert torch.allclose(torch.from_numpy(samples), audio.clamp(-1, 1), atol=1 / 32_000)
    record = json.loads((tmp_path / "out" / "run.json").read_text())
    assert record["state"] == "done"
    assert record["tokens"] == record["nodes"]["think"]["emitted"]["tokens"]
    assert record["audio_seconds"] == pytest.approx(len(audio) / 24_000)
    assert 0 < record["time_to_first_text"] < record["time_to_first_audio"] <= record["seconds"]
    printed = capsys.readouterr()
    assert text in printed.out
    last = printed.out.strip().splitlines()[-1]
    assert last.startswith(f"{record['tokens']} tokens, {record['audio_seconds']:.2f} s of audio, first text after")
    assert "real-time factor" in last
    assert "wave: " in printed.err


def test_one_unit_is_not_called_units(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(tmp_path, {"prompt": "a red house"}, program="null.image") == 0
    assert "read_prompt: 1 unit\n" in capsys.readouterr().err


def test_the_trace_is_one_that_a_viewer_reads(tmp_path: Path) -> None:
    assert run(tmp_path) == 0
    trace = json.loads((tmp_path / "trace.json").read_text())
    record = json.loads((tmp_path / "run.json").read_text())
    units = [event for event in trace["traceEvents"] if event["ph"] == "X" and event["pid"] == 2]
    assert len(units) == sum(sum(node["units"].values()) for node in record["nodes"].values())
    assert all("speech.program.yaml:" in event["args"]["place"] for event in units)
    names = {event["args"]["name"] for event in trace["traceEvents"] if event["ph"] == "M"}
    assert {"thinker", "talker", "vocoder", "request 0"} <= names


def test_json_prints_the_record_and_nothing_else(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(tmp_path, as_json=True) == 0
    assert json.loads(capsys.readouterr().out) == json.loads((tmp_path / "run.json").read_text())


@pytest.mark.parametrize(
    ("inputs", "code", "said"),
    [
        ({}, 2, "input prompt (text) is missing"),
        ({"promt": "x", "prompt": "y"}, 2, "did you mean prompt?"),
    ],
)
def test_wrong_inputs_are_one_line_and_touch_no_file(
    inputs: dict[str, str], code: int, said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "text.txt").write_text("earlier")
    assert run(tmp_path, inputs) == code
    error = capsys.readouterr().err
    assert said in error
    assert error.startswith("omniflow: ")
    assert error.count("\n") == 1
    assert [path.name for path in tmp_path.iterdir()] == ["text.txt"]
    assert (tmp_path / "text.txt").read_text() == "earlier"


def test_a_schedule_file_and_a_catalogue_name_run_too(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "speech.schedule.json"
    path.write_text(speech().to_json())
    assert run(tmp_path / "a", program=path) == 0
    assert run(tmp_path / "b", program="null.speech") == 0
    assert (tmp_path / "a" / "audio.wav").read_bytes() == (tmp_path / "b" / "audio.wav").read_bytes()
    path.write_text("{}")
    assert run(tmp_path / "c", program=path) == 1
    assert "not a schedule" in capsys.readouterr().err
    path.write_text(speech().to_json().replace('"format": 1', '"format": 99'))
    assert run(tmp_path / "c", program=path) == 1
    assert not (tmp_path / "c").exists()


def test_a_folder_that_cannot_be_written_is_found_before_anything_is_loaded(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").write_text("")
    assert run(tmp_path / "file" / "out") == 1
    assert capsys.readouterr().err.startswith("omniflow: cannot write into ")


def test_a_full_disk_is_one_line_and_leaves_earlier_files_whole(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert run(tmp_path) == 0
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}

    def full(path: Path, data: bytes) -> None:
        raise WriteError(f"cannot write {path}: no space left on device")

    monkeypatch.setattr(command, "write_bytes", full)
    capsys.readouterr()
    assert run(tmp_path, {"prompt": PROMPTS[1]}) == 1
    assert capsys.readouterr().err.splitlines()[-1].endswith("no space left on device")
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before


@pytest.mark.parametrize(("steps", "kept"), [(5, []), (60, ["text.partial.txt"]), (200, ["audio.partial.wav"])])
def test_ctrl_c_stops_at_a_unit_and_keeps_what_is_whole(
    steps: int, kept: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert run(tmp_path) == 0
    before = (tmp_path / "audio.wav").read_bytes()

    class Interrupting(PlainProgress):
        ticks = 0

        def tick(self, engine: Engine, request: int) -> None:
            self.ticks += 1
            if self.ticks == steps:
                os.kill(os.getpid(), signal.SIGINT)

    monkeypatch.setattr(command, "make_progress", lambda schedule, out, quiet: Interrupting(frozenset({"text"}), out))
    assert run(tmp_path, None, seed=3) == 130
    assert "interrupted" in capsys.readouterr().err
    assert (tmp_path / "audio.wav").read_bytes() == before
    assert json.loads((tmp_path / "run.json").read_text())["state"] == "cancelled"
    names = {path.name for path in tmp_path.iterdir()}
    assert {name for name in names if "partial" in name} >= set(kept)
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_a_run_that_fails_half_way_keeps_what_came_and_says_so(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    faults = [{"at": "wave", "kind": "raise", "number": 2}]
    limits = {"profile": "test", "faults": faults}
    assert run(tmp_path, {"prompt": PROMPTS[1]}, **limits) == 1
    record = json.loads((tmp_path / "run.json").read_text())
    assert record["state"] == "failed"
    assert record["outputs"]["text"]["whole"]
    assert not record["outputs"]["audio"]["whole"]
    names = sorted(path.name for path in tmp_path.iterdir())
    assert names == record["files"]
    assert {"text.txt", "run.json", "trace.json"} <= set(names)
    assert "audio.wav" not in names
    *_, kept, why = capsys.readouterr().err.splitlines()
    assert kept == f"omniflow: what came before is in {tmp_path}: {', '.join(names)}"
    assert "raised on purpose" in why


def test_a_run_that_fails_before_anything_came_leaves_the_folder_as_it_was(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(tmp_path) == 0
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    capsys.readouterr()
    assert run(tmp_path, {"prompt": "x" * 70_000}) == 1
    error = capsys.readouterr().err
    assert "node think: it needs" in error
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before


def test_pictures_are_png_files_of_their_pixels() -> None:
    image = torch.rand(5, 7, 3, generator=torch.Generator().manual_seed(0))
    data = artefacts.png(image)
    assert data.startswith(b"\x89PNG\r\n\x1a\n")
    width, height, depth, colour = struct.unpack(">IIBB", data[16:26])
    assert (width, height, depth, colour) == (7, 5, 8, 2)
    at = data.index(b"IDAT")
    (size,) = struct.unpack(">I", data[at - 4 : at])
    rows = zlib.decompress(data[at + 4 : at + 4 + size])
    assert len(rows) == 5 * (1 + 7 * 3)
    assert rows[1:4] == bytes((image[0, 0] * 255).round().to(torch.uint8).tolist())


def test_files_are_fresh_every_time(tmp_path: Path) -> None:
    started = time.time() - 2
    assert run(tmp_path) == 0
    assert all(path.stat().st_mtime >= started for path in tmp_path.iterdir())


def test_what_an_earlier_run_left_does_not_pass_for_this_ones(tmp_path: Path) -> None:
    (tmp_path / "notes.wav").write_bytes(b"mine")
    assert run(tmp_path) == 0
    assert run(tmp_path, program=speech(("text",)), trace=False) == 0
    assert sorted(path.name for path in tmp_path.iterdir()) == ["notes.wav", "run.json", "text.txt"]
    assert json.loads((tmp_path / "run.json").read_text())["files"] == ["run.json", "text.txt"]
