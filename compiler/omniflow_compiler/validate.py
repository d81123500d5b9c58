"""Holds a tree against the JSON Schemas: one schema per kind of spec, then one per kind of entry, never `oneOf`.

The checker reads the few keywords that our schemas use and walks the tree with its spans. The `jsonschema` package says
the same of every document (a test holds the two together) but takes twenty times as long and 90 ms to import.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Any

from omniflow_compiler import codes
from omniflow_compiler.diagnostics import Edit, Label, Report
from omniflow_compiler.load.tree import Mapping, Scalar, Sequence, Tree, Unread
from omniflow_compiler.source import Span
from omniflow_compiler.suggest import did_you_mean, nearest

Schema = dict[str, Any]
_CHECKED_FIRST = ("omniflow", "kind")  # read before anything else
_CHECKED_LATER = ("nodes", "edges")  # entry by entry, each with its own schema
_CODES = {"capability": codes.UNKNOWN_CAPABILITY}


@cache
def schema(kind: str) -> Schema:
    """The JSON Schema of a kind of spec."""
    text = (resources.files("omniflow_compiler") / "schemas" / f"{kind}.schema.json").read_text(encoding="utf-8")
    loaded: Schema = json.loads(text)
    return loaded


def definition(kind: str, part: str) -> Schema:
    """An entry of `$defs`; kinds that have none of their own use the program's."""
    found: Schema = schema(kind).get("$defs", {}).get(part) or schema("program")["$defs"][part]
    return found


def validate(tree: Tree, kind: str, part: str, report: Report, what: str, at: Span | None = None) -> bool:
    """Whether the tree fits; each misfit is reported at the smallest place.

    part: an entry of `$defs`, the whole document when empty. what: how the tree is called in messages. at: where a
    fault of the tree itself is shown, by default its own place.
    """
    walk = _Walk(kind, report)
    if at is None and not part and isinstance(tree, Mapping) and "kind" in tree.entries:
        at = first_line(tree.entries["kind"].value)
    walk.check(tree, definition(kind, part) if part else _document(kind), what, at or first_line(tree))
    return walk.is_sound


@cache
def _document(kind: str) -> Schema:
    whole = schema(kind)
    properties = dict(whole["properties"])
    for name in _CHECKED_LATER:
        if name in properties:
            properties[name] = {k: properties[name][k] for k in ("type", "minProperties") if k in properties[name]}
    properties |= {name: {} for name in _CHECKED_FIRST}
    required = [name for name in whole["required"] if name not in _CHECKED_FIRST]
    return {**whole, "properties": properties, "required": required}


def _required(schema: Schema, tree: Mapping) -> list[str]:
    """Keys that must be there: always, or (`if: {not: {required: ...}}`) unless some other key is."""
    instead = schema.get("if", {}).get("not", {}).get("required", ())
    is_spared = not instead or all(key in tree.entries for key in instead)
    return [*schema.get("required", ()), *(() if is_spared else schema["then"]["required"])]


@dataclass(slots=True)
class _Walk:
    kind: str
    report: Report
    is_sound: bool = True

    def check(self, tree: Tree, schema: Schema, what: str, at: Span) -> None:
        if isinstance(tree, Unread):
            self.is_sound = False
            return
        if "$ref" in schema:
            schema = definition(self.kind, schema["$ref"].removeprefix("#/$defs/"))
        if "type" in schema and not self._has_type(tree, schema["type"], what, at):
            return
        if "enum" in schema and not isinstance(tree, Scalar):
            message = f"{what} is {_kind_name(tree)}, expected {schema.get('title', 'text')}"
            self._add(codes.WRONG_TYPE, first_line(tree), message)
        elif isinstance(tree, Mapping):
            self._mapping(tree, schema, what, at)
        elif isinstance(tree, Sequence):
            self._sequence(tree, schema, what, at)
        else:
            self._scalar(tree, schema, what)

    def _has_type(self, tree: Tree, wanted: str | list[str], what: str, at: Span) -> bool:
        names = [wanted] if isinstance(wanted, str) else wanted
        if any(_is(tree, name) for name in names):
            return True
        is_empty = isinstance(tree, Scalar) and tree.value is None
        expected = " or ".join(_TYPE_NAMES[name] for name in names)
        message = f"{what} is {_kind_name(tree)}, expected {expected}"
        self._add(codes.WRONG_TYPE, at if is_empty else first_line(tree), message, help=_yaml_hint(tree, names))
        return False

    def _mapping(self, tree: Mapping, schema: Schema, what: str, at: Span) -> None:
        properties: Schema = schema.get("properties", {})
        others = schema.get("additionalProperties", True)
        unknown: list[str] = []
        for key, entry in tree.entries.items():
            if self.report.is_full:
                return
            if key in properties:
                self.check(entry.value, properties[key], f"`{key}`", entry.key)
            elif others is False:
                unknown.append(key)
            elif others is not True:
                self.check(entry.value, others, f"`{key}`", entry.key)
        self._unknown_keys(tree, unknown, properties, what)
        missing = [key for key in _required(schema, tree) if key not in tree.entries]
        extra = [key for key in tree.entries if key not in properties] if others is True else []
        for key in missing:
            misspelt = nearest(key, extra, most=1)
            if misspelt:
                unknown_key(self.report, misspelt[0], tree.entries[misspelt[0]].key, [key], what)
                self.is_sound = False
            elif not nearest(key, unknown):  # a misspelt key is reported once
                self._add(codes.MISSING_KEY, at, f"{what} has no `{key}`", help=_purpose(properties.get(key, {}), key))
        if len(tree.entries) < schema.get("minProperties", 0):
            self._add(codes.BAD_VALUE, at, f"{what} is empty")

    def _unknown_keys(self, tree: Mapping, unknown: Iterable[str], properties: Schema, what: str) -> None:
        unused = [key for key in properties if key not in tree.entries]
        for key in unknown:
            if self.report.is_full:
                return
            entry = tree.entries[key]
            if isinstance(entry.value, Scalar) and entry.value.value is None and " " in key:
                help = ["inside {...} a comma ends a value: quote the text that has one"]
                self._add(codes.UNKNOWN_KEY, entry.key, f"unknown key `{_shortened(key)}` in {what}", help=help)
            else:
                unknown_key(self.report, key, entry.key, unused, what)
            self.is_sound = False

    def _sequence(self, tree: Sequence, schema: Schema, what: str, at: Span) -> None:
        if len(tree.items) < schema.get("minItems", 0):
            self._add(codes.BAD_VALUE, at, f"{what} is empty")
        if "items" in schema:
            for item in tree.items:
                self.check(item, schema["items"], f"an entry of {what}", first_line(item))
        if schema.get("uniqueItems"):
            self._repeats(tree, what)

    def _repeats(self, tree: Sequence, what: str) -> None:
        seen: dict[object, Span] = {}
        for item in tree.items:
            if not isinstance(item, Scalar):
                continue
            key = (type(item.value), item.value)
            if key in seen:
                label = Label(span=seen[key], text="first named here")
                self._add(codes.BAD_VALUE, item.span, f"{what} names `{item.written}` twice", labels=[label])
            seen.setdefault(key, item.span)

    def _scalar(self, tree: Scalar, schema: Schema, what: str) -> None:
        value, shown = tree.value, f"`{_shortened(tree.written)}`"
        if "enum" in schema and (isinstance(value, bool) or value not in schema["enum"]):
            noun = schema.get("title")
            message = f"unknown {noun} {shown}" if noun else f"{shown} is not a value of {what}"
            known = [] if self.report.is_crowded else [str(value) for value in schema["enum"]]
            help = did_you_mean(str(tree.written), known, noun or "value") if known else []
            close = nearest(str(tree.written), known, most=1)
            edits = [Edit(span=tree.span, text=close[0])] if close else []
            self._add(_CODES.get(noun or "", codes.BAD_VALUE), tree.span, message, help=help, edits=edits)
        if "pattern" in schema and isinstance(value, str) and not _pattern(schema["pattern"]).search(value):
            noun = schema.get("title")
            message = f"{what} is {shown}, which is no {noun}" if noun else f"{shown} cannot be {what}"
            self._add(codes.BAD_VALUE, tree.span, message, help=_form(schema))
        if isinstance(value, int | float) and not isinstance(value, bool):
            if value < schema.get("minimum", value):
                self._add(codes.BAD_VALUE, tree.span, f"{what} is {shown}, the least allowed is {schema['minimum']}")
            if value > schema.get("maximum", value):
                self._add(codes.BAD_VALUE, tree.span, f"{what} is {shown}, the most allowed is {schema['maximum']}")

    def _add(
        self,
        code: codes.Code,
        span: Span,
        message: str,
        *,
        help: Iterable[str] = (),
        labels: Iterable[Label] = (),
        edits: Iterable[Edit] = (),
    ) -> None:
        self.report.add(code, span, message, help=help, labels=labels, edits=edits)
        self.is_sound = False


def unknown_key(report: Report, key: str, span: Span, known: Iterable[str], what: str) -> None:
    """Reports a key that nothing reads; `known` are the keys that could still be written there."""
    known = [] if report.is_crowded else list(known)
    close = nearest(key, known, most=1)
    report.add(
        codes.UNKNOWN_KEY,
        span,
        f"unknown key `{_shortened(key)}` in {what}",
        help=[] if report.is_crowded else did_you_mean(key, known, "key"),
        edits=[Edit(span=span, text=close[0])] if close else [],
    )


@cache
def _pattern(text: str) -> re.Pattern[str]:
    return re.compile(f"{text[:-1]}\\Z" if text.endswith("$") else text)  # `$` would allow a last line break


_TYPE_NAMES = {
    "string": "text", "integer": "a whole number", "number": "a number", "boolean": "true or false",
    "object": "a mapping", "array": "a list",
}  # fmt: skip


def _is(tree: Tree, name: str) -> bool:
    if not isinstance(tree, Scalar):
        return name == ("object" if isinstance(tree, Mapping) else "array")
    value = tree.value
    if isinstance(value, bool):
        return name == "boolean"
    if isinstance(value, str):
        return name == "string"
    return (name == "number" and value is not None) or (name == "integer" and isinstance(value, int))


def _kind_name(tree: Tree) -> str:
    if isinstance(tree, Mapping):
        return "a mapping"
    if isinstance(tree, Sequence):
        return "a list"
    value = tree.value if isinstance(tree, Scalar) else None
    if not isinstance(tree, Scalar) or value is None:
        return "empty"
    if isinstance(value, bool):
        return f"the truth value `{tree.written}`"
    kind = "text" if isinstance(value, str) else "number"
    return f"the {kind} `{_shortened(tree.written)}`"


def _shortened(text: str) -> str:
    return text if len(text) <= 60 else f"{text[:57]}..."


def _yaml_hint(tree: Tree, names: list[str]) -> list[str]:
    if not isinstance(tree, Scalar) or tree.value is None:
        return []
    if "boolean" in names and tree.written.lower() in ("on", "off", "yes", "no"):
        meant = "true" if tree.written.lower() in ("on", "yes") else "false"
        return [f"in YAML 1.2 `{tree.written}` is text; write `{meant}`"]
    if "string" in names:
        return [f"quote it to make it text: '{_shortened(tree.written)}'"]
    if isinstance(tree.value, str) and {"integer", "number"} & {*names} and _is_number(tree.value):
        return [f"leave the quotes out: {_shortened(tree.value)}"]
    return []


def _is_number(text: str) -> bool:
    return re.fullmatch(r"[-+]?[0-9]{1,18}(\.[0-9]{1,18})?", text) is not None


def _purpose(schema: Schema, key: str) -> list[str]:
    described = schema.get("description")
    return [f"`{key}`: {described[0].lower()}{described[1:].rstrip('.')}"] if described else []


def _form(schema: Schema) -> list[str]:
    """What a pattern asks for; schemas say it in words beside the pattern."""
    return [schema["$comment"]] if "$comment" in schema else []


def first_line(tree: Tree) -> Span:
    """A container's span is cut to its first line, which is where people look."""
    span = tree.span
    if span.end_line > span.line:
        return Span(span.file, span.line, span.column, span.line, span.column + 1)
    return span
