from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from jsonschema import Draft202012Validator

from omniflow import files
from omniflow.commands.arguments import BadArgument
from omniflow.commands.fmt import format_files
from omniflow.commands.init import TEMPLATES, start_project
from omniflow.commands.launch import launch
from omniflow.commands.selection import Selection
from omniflow_compiler.diagnostics import Report
from omniflow_compiler.load.document import read_document
from omniflow_compiler.load.tree import plain
from omniflow_compiler.pipeline import Options, compile_file
from omniflow_compiler.source import SourceSet


@pytest.mark.parametrize("template", TEMPLATES)
def test_a_new_project_checks_runs_and_is_laid_out(template: str, tmp_path: Path) -> None:
    assert start_project("my-model.v2", template=template, parent=tmp_path) == 0
    folder = tmp_path / "my-model.v2"
    program = folder / f"{template}.program.yaml"
    for path in (folder / "card.yaml", program):
        assert list(compile_file(path, Options()).report) == []
    assert format_files([folder], check=True) == 0
    run = launch(
        Selection(spec=str(program)),
        inputs=["prompt=hello"],
        params=[],
        rng="derived",
        out=tmp_path / "out",
        seed=1,
        profile="serve",
        as_json=False,
        trace=False,
    )
    assert run == 0


@pytest.mark.parametrize("template", TEMPLATES)
def test_the_schemas_beside_a_new_project_fit_its_files(template: str, tmp_path: Path) -> None:
    start_project("m", template=template, parent=tmp_path)
    for path in (tmp_path / "m").glob("*.yaml"):
        comment = re.match(r"# yaml-language-server: \$schema=(\S+)\n", path.read_text())
        assert comment is not None
        schema = json.loads((path.parent / comment[1]).read_text())
        document = read_document(path, SourceSet(tmp_path), Report())
        assert document is not None
        assert list(Draft202012Validator(schema).iter_errors(plain(document[1]))) == []


def test_a_disk_that_fills_up_leaves_no_half_of_a_project(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    real, written = files.write_bytes, []

    def filling(path: Path, data: bytes) -> None:
        if len(written) == 3:
            raise files.WriteError(f"cannot write {path}: no space left on device")
        written.append(path)
        real(path, data)

    monkeypatch.setattr(files, "write_bytes", filling)
    (tmp_path / "kept").mkdir()
    for name in ("m", "kept"):
        written.clear()
        assert start_project(name, template="text", parent=tmp_path) == 1
        assert capsys.readouterr().err.count("no space left on device") == 1
    assert [path.name for path in tmp_path.rglob("*")] == ["kept"]


def test_nothing_is_overwritten(tmp_path: Path) -> None:
    (tmp_path / "m").mkdir()
    mine = tmp_path / "m" / "card.yaml"
    mine.write_text("mine")
    with pytest.raises(BadArgument, match=r"card\.yaml exists already"):
        start_project("m", template="text", parent=tmp_path)
    assert mine.read_text() == "mine"
    assert list((tmp_path / "m").iterdir()) == [mine]


@pytest.mark.parametrize("name", ["", "../up", "a b", "-x", "ä"])
def test_names_that_are_no_ids_are_refused(name: str, tmp_path: Path) -> None:
    with pytest.raises(BadArgument, match="cannot be a name"):
        start_project(name, template="text", parent=tmp_path)
    assert list(tmp_path.iterdir()) == []
