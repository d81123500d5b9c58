"""A textual form of the graph after a pass: parts with a name and fields, written and read back without loss.

    node think
      loop: "think"
      attributes: {"max_tokens": 48}
      in prompt: "tokens[P=tokenize.P] < 317"

A part is a line at the margin, `KIND NAME`; a field is an indented line, `KEY: JSON`. Names and keys that could be
misread are written as JSON strings.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass

from omniflow_compiler.schedule import Json

VERSION = 1
_HEADER = re.compile(r"# omniflow dump (\d+), after (\w+)\Z")
_PLAIN = re.compile(r"[^\s\":#][^\n\":]*(?<!\s)\Z")


class DumpError(Exception):
    """A text that is no dump; the message names the line."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """A piece of the graph: a node, an edge, a component, ... with its fields in order; values are JSON."""

    kind: str
    name: str
    fields: tuple[tuple[str, Json], ...] = ()

    def field(self, key: str) -> Json:
        """The value of a field; None when it is not there."""
        return dict(self.fields).get(key)


@dataclass(frozen=True, slots=True, kw_only=True)
class Dump:
    """The graph after a pass."""

    after: str
    parts: tuple[Part, ...]

    def of(self, kind: str) -> tuple[Part, ...]:
        """The parts of that kind."""
        return tuple(part for part in self.parts if part.kind == kind)


def write(dump: Dump) -> str:
    """The dump as text."""
    return "".join(f"{line}\n" for line in _lines(dump))


def _lines(dump: Dump) -> Iterator[str]:
    yield f"# omniflow dump {VERSION}, after {dump.after}"
    for part in dump.parts:
        yield f"{part.kind} {_quoted(part.name)}".rstrip()
        for key, value in part.fields:
            yield f"  {_quoted(key)}: {json.dumps(value, ensure_ascii=False, sort_keys=True)}"


def _quoted(name: str) -> str:
    is_plain = name == "" or (_PLAIN.match(name) and name.isprintable())
    return name if is_plain else json.dumps(name)


def parse(text: str) -> Dump:
    """The dump a text describes. Errors: DumpError."""
    lines = text.split("\n")
    header = _HEADER.match(lines[0])
    if header is None or int(header[1]) != VERSION:
        raise DumpError(f"line 1: a dump begins with `# omniflow dump {VERSION}, after PASS`")
    parts: list[Part] = []
    fields: list[tuple[str, Json]] = []
    for number, line in enumerate([*lines[1:], "end"], start=2):
        if line.startswith("  "):
            fields.append(_field(line, number))
        elif line:
            if parts:
                parts[-1] = Part(kind=parts[-1].kind, name=parts[-1].name, fields=tuple(fields))
            elif fields:
                raise DumpError(f"line {number}: a field before any part")
            fields = []
            kind, _, name = line.partition(" ")
            parts.append(Part(kind=kind, name=_name(name, number)))
    return Dump(after=header[2], parts=tuple(parts[:-1]))


def _field(line: str, number: int) -> tuple[str, Json]:
    body = line[2:]
    try:
        if body.startswith('"'):
            key, end = json.JSONDecoder().raw_decode(body)
        else:
            end = body.index(":")
            key = body[:end]
        if body[end : end + 2] != ": ":
            raise ValueError
        return str(key), json.loads(body[end + 2 :])
    except ValueError:
        raise DumpError(f"line {number}: a field is `KEY: JSON`") from None


def _name(text: str, number: int) -> str:
    if not text.startswith('"'):
        return text
    try:
        return str(json.loads(text))
    except ValueError:
        raise DumpError(f"line {number}: a name in quotes is a JSON string") from None
