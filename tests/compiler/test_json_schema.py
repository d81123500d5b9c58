from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from jsonschema import Draft7Validator, Draft202012Validator

from omniflow_compiler.diagnostics import Report
from omniflow_compiler.json_schema import full_schema
from omniflow_compiler.library.library import BUILT_IN
from omniflow_compiler.load.document import read_text
from omniflow_compiler.load.tree import Mapping, plain
from omniflow_compiler.pipeline import Options, compile_file
from omniflow_compiler.schema_examples import EXAMPLES
from omniflow_compiler.source import Source
from tests.house.process import ROOT

SPECS = sorted((ROOT / "specs").rglob("*.yaml"))
KINDS = ("card", "program", "graph", "workflow", "config")
VALIDATORS = (Draft7Validator, Draft202012Validator)
SCHEMAS = {kind: full_schema(kind, BUILT_IN) for kind in KINDS}


def read(text: str) -> dict[str, Any]:
    tree = read_text(Source(name="a", path=Path("a"), text=text, lines=()), Report())
    assert isinstance(tree, Mapping)
    found = plain(tree)
    assert isinstance(found, dict)
    return found


def problems(kind: str, document: object) -> list[str]:
    return sorted({error.message for each in VALIDATORS for error in each(SCHEMAS[kind]).iter_errors(document)})


@pytest.mark.parametrize("kind", KINDS)
def test_schemas_are_sound_in_both_drafts(kind: str) -> None:
    for validator in VALIDATORS:
        validator.check_schema(SCHEMAS[kind])


@pytest.mark.parametrize("path", SPECS, ids=lambda path: f"{path.parent.name}-{path.stem}")
def test_every_shipped_spec_fits_its_schema(path: Path) -> None:
    document = read(path.read_text())
    assert problems(document["kind"], document) == []


@pytest.mark.parametrize("path", SPECS, ids=lambda path: f"{path.parent.name}-{path.stem}")
def test_every_shipped_spec_names_a_schema_that_exists(path: Path) -> None:
    comment = re.match(r"# yaml-language-server: \$schema=(\S+)\n", path.read_text())
    assert comment is not None
    named = (path.parent / comment[1]).resolve()
    assert named.is_file()
    assert named.name == f"{read(path.read_text())['kind']}.schema.json"


def test_examples_fit_and_compile(tmp_path: Path) -> None:
    names = {"card": "card.yaml", "program": "text.program.yaml", "workflow": "twice.workflow.yaml"}
    for kind, example in EXAMPLES.items():
        assert problems(kind, example) == []
        (tmp_path / names.get(kind, f"{kind}.yaml")).write_text(yaml.safe_dump(example))
    for name in [*names.values(), "graph.yaml", "config.yaml"]:
        report = compile_file(tmp_path / name, Options()).report
        assert not report.num_errors, list(report)


def fields(schema: object) -> Iterator[tuple[str, dict[str, Any]]]:
    if isinstance(schema, dict):
        for name, value in schema.get("properties", {}).items():
            yield name, value
        for value in schema.values():
            yield from fields(value)
    elif isinstance(schema, list):
        for value in schema:
            yield from fields(value)


@pytest.mark.parametrize("kind", KINDS)
def test_every_field_says_what_it_is_for(kind: str) -> None:
    silent = [
        name for name, value in fields(SCHEMAS[kind]) if value and "const" not in value and "description" not in value
    ]
    assert silent == []
    assert SCHEMAS[kind]["examples"]


def test_nodes_are_complete_with_ops_and_their_attributes() -> None:
    rules = SCHEMAS["program"]["$defs"]["node"]["allOf"]
    cases = {rule["if"]["properties"]["op"]["const"]: rule["then"] for rule in rules if "properties" in rule["if"]}
    assert set(cases) == set(BUILT_IN.ops)
    for name, op in BUILT_IN.ops.items():
        assert {attribute.name for attribute in op.attributes} <= set(cases[name]["properties"])


@pytest.mark.parametrize(
    ("kind", "change", "message"),
    [
        ("program", {"nodes": {"a": {"op": "strip", "dorp": [1]}}}, "'dorp' was unexpected"),
        ("program", {"nodes": {"a": {"op": "strip"}}}, "'drop' is a required property"),
        ("program", {"nodes": {"a": {"op": "stripp", "drop": [1]}}}, "'stripp' is not one of"),
        ("program", {"nodes": {"a": {"loop": "think", "drop": [1]}}}, "'drop' was unexpected"),
        ("program", {"edges": ["a -> b"]}, "does not match"),
        ("program", {"edges": [{"a.x ~> b.y": {"chunks": 1}}]}, "'chunks' was unexpected"),
        ("card", {"loops": {"a": {"kind": "ar_decode", "binds": "thinker"}}}, "'max_tokens' is a required property"),
        ("card", {"loops": {"a": {"kind": "encode", "binds": "thinker", "stop": [1]}}}, "'stop' was unexpected"),
        ("card", {"components": {"a": {"use": "no.such"}}}, "is not one of"),
    ],
)
def test_an_editor_shows_what_does_not_fit(kind: str, change: dict[str, Any], message: str) -> None:
    found = problems(kind, {**EXAMPLES[kind], **change})
    assert any(message in text for text in found), found


def test_params_may_stand_for_values_but_not_for_names() -> None:
    loop = {"kind": "ar_decode", "binds": "thinker", "max_tokens": "$n", "stop": ["$eos"], "temperature": "$t"}
    assert problems("card", {**EXAMPLES["card"], "loops": {"think": loop}}) == []
    assert problems("card", {**EXAMPLES["card"], "loops": {"think": {**loop, "temperature": "hot"}}}) != []
