"""Holds a tree against the JSON Schemas: one schema per kind of spec, then one per kind of entry, never `oneOf`."""

from __future__ import annotations

import json
from collections.abc import Iterable
from functools import cache
from importlib import resources
from typing import Any

from jsonschema import Draft202012Validator
from jsonschema.exceptions import ValidationError

from omniflow_compiler import codes
from omniflow_compiler.diagnostics import Edit, Report
from omniflow_compiler.load import Mapping, Scalar, Sequence, Tree, plain
from omniflow_compiler.source import Span
from omniflow_compiler.suggest import did_you_mean, nearest


@cache
def schema(kind: str) -> dict[str, Any]:
    """The JSON Schema of a kind of spec."""
    text = (resources.files("omniflow_compiler") / "schemas" / f"{kind}.schema.json").read_text(encoding="utf-8")
    loaded: dict[str, Any] = json.loads(text)
    return loaded


@cache
def _validator(kind: str, part: str) -> Draft202012Validator:
    whole = schema(kind)
    if part:
        return Draft202012Validator({"$ref": f"#/$defs/{part}", "$defs": whole["$defs"]})
    # Entries of large mappings are validated one by one with their own schema.
    properties = dict(whole["properties"])
    for name in ("nodes", "edges"):
        if name in properties:
            properties[name] = {"type": properties[name]["type"]}
    for name in ("omniflow", "kind"):  # read before anything else
        properties[name] = {}
    return Draft202012Validator({**whole, "properties": properties})


def validate(tree: Tree, kind: str, part: str, report: Report, what: str) -> bool:
    """Whether the tree fits; each misfit is reported at the smallest place. `part` names an entry of `$defs`."""
    errors = list(_validator(kind, part).iter_errors(plain(tree)))
    for error in errors:
        _report(error, tree, report, what)
    return not errors


def locate(tree: Tree, path: Iterable[str | int]) -> Tree:
    """The part of the tree at a JSON path."""
    for step in path:
        if isinstance(tree, Mapping) and isinstance(step, str):
            tree = tree.entries[step].value
        elif isinstance(tree, Sequence) and isinstance(step, int):
            tree = tree.items[step]
    return tree


def _report(error: ValidationError, tree: Tree, report: Report, what: str) -> None:
    at = locate(tree, error.absolute_path)
    path = list(error.absolute_path)
    subject = f"`{path[-1]}`" if path and isinstance(path[-1], str) else what
    if error.validator == "additionalProperties" and isinstance(at, Mapping):
        _unknown_keys(at, error.schema, report, subject)
    elif error.validator == "required" and isinstance(at, Mapping):
        missing = [key for key in error.validator_value if key not in at.entries]
        if missing and error.message.startswith(repr(missing[0])):
            for key in missing:
                report.add(codes.MISSING_KEY, _first_line(at), f"{subject} has no `{key}`")
    elif error.validator == "type":
        expected = error.validator_value
        names = [expected] if isinstance(expected, str) else expected
        report.add(
            codes.WRONG_TYPE,
            _first_line(at),
            f"{subject} is {_kind_name(at)}, expected {' or '.join(_TYPE_NAMES[name] for name in names)}",
            help=_yaml_hint(at, names),
        )
    else:
        report.add(codes.BAD_VALUE, _first_line(at), _value_message(error, at, subject), help=_value_help(error, at))


_TYPE_NAMES = {
    "string": "text", "integer": "a whole number", "number": "a number", "boolean": "true or false",
    "object": "a mapping", "array": "a list", "null": "nothing",
}  # fmt: skip


def _kind_name(tree: Tree) -> str:
    if isinstance(tree, Mapping):
        return "a mapping"
    if isinstance(tree, Sequence):
        return "a list"
    value = tree.value
    if value is None:
        return "empty"
    if isinstance(value, bool):
        return "true/false"
    return "text" if isinstance(value, str) else f"the number {tree.written}"


def _yaml_hint(at: Tree, names: list[str]) -> list[str]:
    if isinstance(at, Scalar) and "boolean" in names and str(at.written).lower() in ("on", "off", "yes", "no"):
        meant = "true" if at.written.lower() in ("on", "yes") else "false"
        return [f"in YAML 1.2 `{at.written}` is text; write `{meant}`"]
    if isinstance(at, Scalar) and "string" in names and at.value is not None:
        return [f"quote it to make it text: '{at.written}'"]
    return []


def _unknown_keys(at: Mapping, schema: Any, report: Report, subject: str) -> None:
    known = schema.get("properties", {})
    for key, entry in at.entries.items():
        if key not in known:
            close = nearest(key, (k for k in known if k not in at.entries), most=1)
            edits = [Edit(span=entry.key, text=close[0])] if close else []
            unused = [k for k in known if k not in at.entries]
            report.add(
                codes.UNKNOWN_KEY,
                entry.key,
                f"unknown key `{key}` in {subject}",
                help=did_you_mean(key, unused, "key"),
                edits=edits,
            )


def _value_message(error: ValidationError, at: Tree, subject: str) -> str:
    written = f"`{at.written}`" if isinstance(at, Scalar) else "this"
    match error.validator:
        case "enum":
            return f"{written} is not a value of {subject}"
        case "const":
            return f"{subject} must be `{error.validator_value}`, not {written}"
        case "pattern":
            return f"{written} is not a well-formed {subject}"
        case "minimum":
            return f"{subject} is {written}, the least allowed is {error.validator_value}"
        case "maximum":
            return f"{subject} is {written}, the most allowed is {error.validator_value}"
        case "minProperties" | "minItems":
            return f"{subject} is empty"
        case "uniqueItems":
            return f"{subject} has the same entry twice"
    return f"{subject}: {error.message}"


def _value_help(error: ValidationError, at: Tree) -> list[str]:
    if error.validator == "enum" and isinstance(at, Scalar):
        return did_you_mean(str(at.written), (str(v) for v in error.validator_value), "value")
    if error.validator == "pattern" and "A-Za-z0-9._-" in str(error.validator_value):
        return ["ids are letters, digits, dots, dashes and underscores"]
    return []


def _first_line(tree: Tree) -> Span:
    """A container's span is cut to its first line, which is where people look."""
    span = tree.span
    if span.end_line > span.line:
        return Span(span.file, span.line, span.column, span.line, span.column + 1)
    return span
