from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from omniflow.commands.arguments import BadArgument
from omniflow.commands.compile import compile_spec
from omniflow.commands.diff import compare_specs
from omniflow.commands.fmt import format_files
from omniflow.commands.schema import KINDS, print_schema
from omniflow.commands.selection import Selection
from omniflow.commands.why import explain_node
from omniflow_compiler.dump import parse
from omniflow_compiler.snapshot import PASSES
from tests.compiler.plan.programs import PROGRAM, compile_texts
from tests.house.process import run_python

NULL = Selection(spec="null.speech")
LAUNCH = "import sys; sys.argv[0] = 'omniflow'; from omniflow.cli import main; main()"


def test_explain_says_something_of_every_node_and_writes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert compile_spec(NULL, output=None, explain="text") == 0
    text = capsys.readouterr().out
    for node in ("tokenize", "think", "wave", "join"):
        assert re.search(rf"^{node}: (op|loop) ", text, re.MULTILINE)
    assert compile_spec(NULL, output=None, explain="json") == 0
    account = json.loads(capsys.readouterr().out)
    assert {node["id"] for node in account["nodes"]} >= {"tokenize", "join"}
    assert list(tmp_path.iterdir()) == []


def test_explain_without_a_form_is_text(tmp_path: Path) -> None:
    done = run_python("-c", LAUNCH, "compile", "null.speech", "--explain", folder=tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("null-speech.speech on card null-speech: 10 nodes\n")


def test_an_unknown_form_of_explanation_is_refused() -> None:
    with pytest.raises(BadArgument, match="known formats are text, json"):
        compile_spec(NULL, output=None, explain="html")


@pytest.mark.parametrize("after", list(PASSES))
def test_every_pass_can_be_dumped(after: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert compile_spec(NULL, output=None, dump_after=after) == 0
    assert parse(capsys.readouterr().out).after == after


def test_help_names_every_pass(tmp_path: Path) -> None:
    done = run_python("-c", LAUNCH, "compile", "--help", folder=tmp_path)
    assert all(name in done.stdout for name in PASSES)


def test_a_pass_that_is_not_there_is_refused_with_the_list() -> None:
    with pytest.raises(BadArgument, match=r"passes are resolve: .*; build: .*plan: "):
        compile_spec(NULL, output=None, dump_after="typez")


def test_a_faulty_program_is_dumped_as_far_as_it_is_known(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    compile_texts(tmp_path, program=PROGRAM.replace("first.tokens ->", "first.tokes ->"))
    faulty = Selection(spec=str(tmp_path / "p.program.yaml"))
    assert compile_spec(faulty, output=None, dump_after="types") == 1
    shown = capsys.readouterr()
    assert len(parse(shown.out).of("node")) == 4
    assert "OF1306" in shown.err
    assert compile_spec(faulty, output=None, dump_after="plan") == 1
    assert capsys.readouterr().out == ""


def test_why_reads_specs_and_schedules_alike(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "s.schedule.json"
    assert compile_spec(NULL, output=path) == 0
    capsys.readouterr()
    assert explain_node(NULL, "speak", as_json=False) == 0
    from_spec = capsys.readouterr().out
    assert explain_node(Selection(spec=str(path)), "speak", as_json=False) == 0
    assert capsys.readouterr().out == from_spec
    assert "output audio through phrase > voice > wave > join" in from_spec
    assert explain_node(NULL, "speak", as_json=True) == 0
    assert json.loads(capsys.readouterr().out)["expert"] == "talker"


def test_why_helps_with_a_node_that_is_not_there() -> None:
    with pytest.raises(BadArgument, match="did you mean `think`"):
        explain_node(NULL, "thinc", as_json=False)


def test_diff_says_with_its_exit_code_whether_there_is_a_difference(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "s.schedule.json"
    compile_spec(NULL, output=path)
    capsys.readouterr()
    assert compare_specs(NULL, Selection(spec=str(path)), as_json=False) == 0
    assert capsys.readouterr().out == "no difference in meaning\n"
    assert compare_specs(NULL, Selection(spec="null.speech", outputs="text"), as_json=True) == 1
    removed = {(c["part"], c["name"]) for c in json.loads(capsys.readouterr().out) if c["kind"] == "removed"}
    assert {("node", "wave"), ("expert", "vocoder"), ("output", "audio")} <= removed
    (tmp_path / "broken.yaml").write_text("omniflow: 1\nkind: program\n")
    assert compare_specs(NULL, Selection(spec=str(tmp_path / "broken.yaml")), as_json=False) == 2


def test_fmt_writes_what_check_asks_for(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "card.yaml"
    path.write_text("kind: card\nomniflow: 1\nid: c\ncomponents: {a: {use: null.thinker}} # one\n")
    (tmp_path / "other.yaml").write_text("not: ours\n")
    assert format_files([tmp_path], check=True) == 1
    assert "kind: card\nomniflow" in path.read_text()
    assert format_files([tmp_path], check=False) == 0
    assert path.read_text() == "omniflow: 1\nkind: card\nid: c\ncomponents:  # one\n  a: {use: null.thinker}\n"
    assert format_files([tmp_path], check=True) == 0
    assert (tmp_path / "other.yaml").read_text() == "not: ours\n"
    path.write_text("omniflow: 1\nkind: [\n")
    assert format_files([path], check=False) == 1
    assert "OF1003" in capsys.readouterr().err


def test_fmt_is_a_filter_too(tmp_path: Path) -> None:
    code = f"import sys, io; sys.stdin = io.StringIO('kind: card\\nomniflow: 1\\n'); {LAUNCH}"
    done = run_python("-c", code, "fmt", "-", folder=tmp_path)
    assert (done.returncode, done.stdout) == (0, "omniflow: 1\nkind: card\n")


@pytest.mark.parametrize("errors", ["strict", "surrogateescape"])
def test_fmt_says_that_its_input_is_not_utf_8(errors: str, tmp_path: Path) -> None:
    made = f"io.TextIOWrapper(io.BytesIO(b'caf\\xe9'), encoding='utf-8', errors='{errors}')"
    done = run_python("-c", f"import sys, io; sys.stdin = {made}; {LAUNCH}", "fmt", "-", folder=tmp_path)
    assert (done.returncode, done.stderr) == (1, "omniflow: standard input is not UTF-8\n")


def test_fmt_says_of_a_file_that_is_no_spec_why(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "notes.txt").write_text("hello world\n")
    assert format_files([tmp_path / "notes.txt"], check=False) == 1
    assert "notes.txt: it is no spec: a spec is a mapping" in capsys.readouterr().err


@pytest.mark.parametrize("kind", KINDS)
def test_schemas_are_printed_as_json(kind: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert print_schema(kind, []) == 0
    assert json.loads(capsys.readouterr().out)["$id"] == f"omniflow:{kind}"


@pytest.mark.parametrize(
    "selection",
    [
        Selection(spec="null.speech", devices=("gpu",)),
        Selection(spec="null.speech", devices=("thinker=cuda:x",)),
        Selection(spec="null.speech", budgets=("cude=1GiB",)),
    ],
)
def test_a_device_that_cannot_be_one_is_refused(selection: Selection) -> None:
    with pytest.raises(BadArgument, match="write cpu, cuda or cuda:1"):
        selection.options()


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
def test_a_full_disk_behind_standard_output_is_one_line() -> None:
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            [sys.executable, "-c", LAUNCH, "explain"], stdout=full, stderr=subprocess.PIPE, text=True, check=False
        )
    assert (done.returncode, done.stderr) == (1, "omniflow: cannot write the output: no space left on device\n")


def test_a_schema_that_is_not_there_is_refused() -> None:
    with pytest.raises(BadArgument, match="kinds are card, program"):
        print_schema("cards", [])
