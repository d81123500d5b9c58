"""Faults from a run configuration, through the command line and through the API."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

import omniflow
from omniflow import State
from omniflow_compiler.pipeline import Options, compile_file
from tests.runtime.command import cli
from tests.runtime.program import PROGRAM, PROMPTS, alone, assert_same, drain, speech

HEADER = "omniflow: 1\nkind: config\nprofile: test\nunit_seconds: 5\nfaults:\n"


def config(folder: Path, *faults: str, header: str = HEADER) -> Path:
    path = folder / "test.config.yaml"
    path.write_text(header + "".join(f"  - {{{fault}}}\n" for fault in faults))
    return path


def run(folder: Path, *faults: str, header: str = HEADER, extra: tuple[str, ...] = ()) -> int:
    path = config(folder, *faults, header=header)
    given = ["--input", f"prompt={PROMPTS[0]}", "--out", str(folder / "out"), "--no-trace", *extra]
    return cli("run", str(PROGRAM), "--config", str(path), *given)


@pytest.mark.parametrize(
    ("do", "said"),
    [
        ("raise", "InjectedFault: raised on purpose"),
        ("nan", "values that are not numbers, on purpose"),
        ("wrong_shape", "a result of the wrong shape, on purpose"),
        ("oom", "MemoryError: out of memory on purpose"),
        ("hang", "no answer within 0.5 s, on purpose"),
    ],
)
def test_a_fault_at_a_unit_names_file_line_node_and_unit(
    do: str, said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    header = HEADER.replace("unit_seconds: 5", "unit_seconds: 0.5") if do == "hang" else HEADER
    assert run(tmp_path, f"node: think, unit: 3, do: {do}", header=header) == 1
    error = capsys.readouterr().err.splitlines()[-1]
    place = speech().node("think").place
    assert error.startswith("omniflow: ")
    assert f"{place}: node think: unit 3: " in error
    assert said in error


def test_an_error_on_an_edge_names_the_edge(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(tmp_path, "edge: 'reply.text~>segment.text', chunk: 2, do: error") == 1
    error = capsys.readouterr().err.splitlines()[-1]
    assert "node reply: unit " in error
    assert "edge reply.text ~> segment.text failed on purpose" in error


def test_pieces_dropped_doubled_or_emptied_change_the_sound_and_not_the_text(tmp_path: Path) -> None:
    want_text, want_audio = alone(PROMPTS[0])
    sizes = {}
    for do in ("delay", "drop", "duplicate", "empty"):
        schedule = speech()
        fault = {"at": "reply.text ~> segment.text", "kind": do, "number": 1}
        result = omniflow.load(schedule, profile="test", faults=[fault]).run({"prompt": PROMPTS[0]})
        assert result.state is State.DONE
        assert result.outputs["text"] == want_text
        sizes[do] = len(result.outputs["audio"])
    assert sizes["drop"] == sizes["empty"]
    assert sizes["drop"] != len(want_audio)
    assert run(tmp_path, "edge: reply.text ~> segment.text, chunk: 1, do: drop") == 0
    assert (tmp_path / "out" / "text.txt").read_text() == want_text


@pytest.mark.parametrize("kind", ["raise", "nan", "wrong_shape", "oom"])
def test_neighbours_of_a_fault_are_equal_to_the_bit(kind: str) -> None:
    running = omniflow.load(speech(), profile="test", faults=[{"at": "wave", "kind": kind, "number": 2, "request": 1}])
    ids = [running.submit({"prompt": prompt}) for prompt in PROMPTS[:3]]
    drain(running)
    assert_same(running.result(ids[0]), PROMPTS[0])
    assert_same(running.result(ids[2]), PROMPTS[2])
    failed = running.result(ids[1])
    assert failed is not None
    assert f"{speech().node('wave').place}: node wave: unit 2: " in str(failed.error)
    assert running.live == 0


@pytest.mark.parametrize(
    ("fault", "code", "said"),
    [
        ("node: thinc, do: raise", "OF1305", "unknown node `thinc`"),
        ("edge: reply.txt ~> segment.text, do: drop", "OF1104", "did you mean `reply.text ~> segment.text`?"),
        ("edge: prompt -> tokenize.messages, do: drop", "OF1104", "prompt -> tokenize.messages"),
        ("node: think, do: drop", "OF1104", "`drop` cannot be done to a node"),
        ("edge: reply.text ~> segment.text, do: nan", "OF1104", "`nan` cannot be done to an edge"),
        ("node: think, chunk: 3, do: nan", "OF1104", "a fault at a node has no `chunk`"),
        ("node: think, do: explode", "OF1104", "`explode` is not a value of `do`"),
        ("do: raise", "OF1102", "has no `node`"),
        ("node: think, unit: -1, do: raise", "OF1104", "the least allowed is 0"),
    ],
)
def test_a_fault_that_names_nothing_is_shown_where_it_is_written(
    fault: str, code: str, said: str, tmp_path: Path
) -> None:
    report = compile_file(PROGRAM, Options(config=config(tmp_path, fault))).report
    assert [found.code for found in report] == [code]
    found = next(iter(report))
    assert said in " ".join([found.message, *found.help])
    assert found.span.file.endswith("test.config.yaml")
    assert found.span.line == 6


def test_faults_count_only_under_the_test_profile(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for header in (HEADER.replace("test", "serve"), HEADER.replace("profile: test\n", "")):
        assert run(tmp_path, "node: think, do: raise", header=header) == 1
        assert "OF1501" in capsys.readouterr().err
    assert run(tmp_path, "node: think, do: raise", extra=("--profile", "serve")) == 2
    assert "OF1501" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_a_hang_needs_a_limit(tmp_path: Path) -> None:
    path = config(tmp_path, "node: think, do: hang", header=HEADER.replace("unit_seconds: 5\n", ""))
    report = compile_file(PROGRAM, Options(config=path)).report
    assert [found.code for found in report] == ["OF1102"]


def test_the_profile_of_a_configuration_is_used(tmp_path: Path) -> None:
    path = tmp_path / "c.yaml"
    path.write_text("omniflow: 1\nkind: config\nprofile: test\n")
    assert cli("run", str(PROGRAM), "--config", str(path), "--input", "prompt=Hm", "--out", str(tmp_path / "o")) == 0
    samples = alone("Hm")[1]
    assert isinstance(samples, torch.Tensor)
    assert (tmp_path / "o" / "audio.wav").stat().st_size > len(samples)
