from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from omniflow_compiler.codes import CODES
from omniflow_compiler.formats import FORMATS
from omniflow_compiler.pipeline import Compilation, Options, compile_file
from omniflow_compiler.render_json import render_json

CARD = """omniflow: 1
kind: card
id: talk
components:
  tokenizer: {use: null.tokenizer}
  thinker: {use: null.thinker}
loops:
  think: {kind: ar_decode, binds: thinker, max_tokens: 8}
"""
PROGRAM = """omniflow: 1
kind: program
id: talk.reply
card: talk
inputs: {prompt: text, voice: text}  # omniflow: allow OF2010
outputs: {text: reply.text}
nodes:
  tokenize: {op: tokenize, with: tokenizer}
  think: {loop: think}
  reply: {op: detokenize, with: tokenizer}
edges:
  - prompt -> tokenize.text
  - tokenize.tokens -> think.prompt
  - thnik.tokens ~> reply.tokens
  - thnik.tokens ~> reply.tokens
"""


@pytest.fixture
def broken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Compilation:
    folder = tmp_path / "talk 100%"  # a blank and a percent sign, which URIs and commands write otherwise
    folder.mkdir()
    (folder / "card.yaml").write_text(CARD)
    (folder / "p.program.yaml").write_text(PROGRAM)
    monkeypatch.chdir(tmp_path)
    return compile_file(folder / "p.program.yaml", Options(params={"nothing": "1"}))


def shown(compilation: Compilation, format: str) -> str:
    return FORMATS[format]([(compilation.report, compilation.sources)])


def test_json_has_one_object_a_line_with_the_same_keys_always(broken: Compilation) -> None:
    records = [json.loads(line) for line in shown(broken, "json").splitlines()]
    assert [record["code"] for record in records] == ["OF1201", "OF1305"]
    place = {"file", "line", "column", "end_line", "end_column"}
    for record in records:
        assert set(record) == {"code", "level", "message", "note", "labels", "help", "edits", *place}
        assert all(set(label) == {"text", *place} for label in record["labels"])
        assert all(set(edit) == {"text", "safe", *place} for edit in record["edits"])
    unknown = records[1]
    assert (unknown["file"], unknown["line"], unknown["column"]) == ("talk 100%/p.program.yaml", 14, 5)
    assert (unknown["end_line"], unknown["end_column"]) == (14, 10)
    assert unknown["help"] == ["did you mean `think`?"]
    assert [edit["text"] for edit in unknown["edits"]] == ["think", "think"]


def test_the_edits_of_json_mend_the_file_they_name(broken: Compilation) -> None:
    lines = Path("talk 100%/p.program.yaml").read_text().split("\n")
    (unknown,) = [r for r in map(json.loads, shown(broken, "json").splitlines()) if r["code"] == "OF1305"]
    for edit in sorted(unknown["edits"], key=lambda e: (e["line"], e["column"]), reverse=True):
        line = lines[edit["line"] - 1]
        lines[edit["line"] - 1] = line[: edit["column"] - 1] + edit["text"] + line[edit["end_column"] - 1 :]
    assert "\n".join(lines) == PROGRAM.replace("thnik", "think")


def test_a_file_outside_the_working_folder_is_named_so_that_it_can_be_opened(
    broken: Compilation, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    monkeypatch.chdir(elsewhere)
    records = [json.loads(line) for line in render_json(broken.report, broken.sources).splitlines()]
    assert Path(records[1]["file"]).read_text() == PROGRAM
    sarif = json.loads(shown(broken, "sarif"))
    uri = sarif["runs"][0]["results"][1]["locations"][0]["physicalLocation"]["artifactLocation"]["uri"]
    assert uri == Path(records[1]["file"]).as_uri()


def test_github_writes_one_command_a_finding_and_escapes_it(broken: Compilation) -> None:
    first, second = shown(broken, "github").splitlines()
    assert first.startswith("::error title=OF1201%3A unknown param::unknown param `nothing`")
    assert second.startswith(
        "::error file=talk 100%25/p.program.yaml,line=14,endLine=14,col=5,endColumn=10,"
        "title=OF1305%3A unknown node::unknown node `thnik`%0A"
    )
    assert "and here%0Ahelp: did you mean `think`?" in second


# The part of the published structure that we write: type, required keys, allowed keys, elements.
TEXT = {"text": str, "markdown?": str}
REGION = {"startLine": int, "startColumn": int, "endLine": int, "endColumn": int}
LOCATION = {
    "id?": int,
    "message?": TEXT,
    "physicalLocation": {"artifactLocation": {"uri": str}, "region": REGION},
}
CHANGE = {
    "artifactLocation": {"uri": str},
    "replacements": [{"deletedRegion": REGION, "insertedContent": {"text": str}}],
}
RESULT = {
    "ruleId": str,
    "ruleIndex": int,
    "level": str,
    "message": TEXT,
    "locations": [LOCATION],
    "relatedLocations?": [LOCATION],
    "fixes?": [{"description": TEXT, "artifactChanges": [CHANGE]}],
}
RULE = {
    "id": str,
    "shortDescription": TEXT,
    "fullDescription": TEXT,
    "help": TEXT,
    "defaultConfiguration": {"level": str},
}
DRIVER = {"name": str, "semanticVersion": str, "rules": [RULE]}
LOG = {
    "$schema": str,
    "version": str,
    "runs": [{"tool": {"driver": DRIVER}, "columnKind": str, "results": [RESULT]}],
}


def fits(value: Any, form: Any, path: str = "") -> None:
    if isinstance(form, dict):
        known = {key.rstrip("?"): part for key, part in form.items()}
        assert set(value) <= set(known), path
        for key, part in form.items():
            if not key.endswith("?"):
                assert key in value, f"{path}/{key}"
            if key.rstrip("?") in value:
                fits(value[key.rstrip("?")], part, f"{path}/{key.rstrip('?')}")
    elif isinstance(form, list):
        assert isinstance(value, list), path
        for item in value:
            fits(item, form[0], f"{path}[]")
    else:
        assert type(value) is form, path
        assert not isinstance(value, int) or value >= (0 if path.endswith("ruleIndex") else 1), path


def test_sarif_has_the_published_structure_with_rules_places_and_fixes(broken: Compilation) -> None:
    log = json.loads(shown(broken, "sarif"))
    fits(log, LOG)
    assert log["version"] == "2.1.0"
    (run,) = log["runs"]
    assert run["columnKind"] == "unicodeCodePoints"
    rules = run["tool"]["driver"]["rules"]
    assert [rule["id"] for rule in rules] == ["OF1201", "OF1305"]
    on_command_line, unknown = run["results"]
    assert on_command_line["locations"] == []
    assert rules[unknown["ruleIndex"]]["id"] == unknown["ruleId"] == "OF1305"
    place = unknown["locations"][0]["physicalLocation"]
    assert place["artifactLocation"]["uri"] == "talk%20100%25/p.program.yaml"
    assert place["region"] == {"startLine": 14, "startColumn": 5, "endLine": 14, "endColumn": 10}
    assert unknown["relatedLocations"][0]["message"]["text"] == "and here"
    (change,) = unknown["fixes"][0]["artifactChanges"]
    assert [r["insertedContent"]["text"] for r in change["replacements"]] == ["think", "think"]


def test_sarif_of_nothing_is_a_log_with_no_results(tmp_path: Path) -> None:
    (tmp_path / "card.yaml").write_text(CARD)
    (tmp_path / "p.program.yaml").write_text(PROGRAM.replace("thnik", "think").replace("~> reply.tokens\n", "", 1))
    log = json.loads(FORMATS["sarif"]([]))
    fits(log, LOG)
    assert log["runs"][0]["results"] == []


def test_every_level_is_one_that_all_formats_know(broken: Compilation) -> None:
    assert {code.level for code in CODES.values()} <= {"error", "warning"}


def test_text_ends_with_a_count(broken: Compilation) -> None:
    assert re.search(r"^2 errors\n\Z", shown(broken, "text"), re.MULTILINE)
