"""Levels of lints: what each file says under `lints:` and in comments, and what the command line denies.

A comment `# omniflow: allow OF2006` behind a line silences that code on the line; on a line of its own, on the next.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Literal

from omniflow_compiler.codes import Code
from omniflow_compiler.source import Source, Span

Level = Literal["error", "warning"]
LEVELS: dict[str, Level | None] = {"allow": None, "warn": "warning", "deny": "error"}
WARNINGS = "warnings"  # what `--deny` may name besides codes

_COMMENT = re.compile(r"#[ \t]*omniflow:[ \t]*(?=allow\b|[^\n]*\bOF[0-9])(?P<rest>[^\r\n]*)")
_ALLOW = re.compile(r"allow[ \t]+(?P<codes>\w+(?:[ \t]*[, \t][ \t]*OF\w+)*)[ \t]*(?:[^\w\s].*)?\Z")
_CODE = re.compile(r"\w+")


@dataclass(slots=True)
class Suppression:
    """A comment that silences a code on one line."""

    code: str
    span: Span
    line: int
    is_used: bool = False


@dataclass(slots=True)
class Levels:
    """The level of every lint at every place."""

    denied: frozenset[str] = frozenset()
    files: dict[str, dict[str, str]] = field(default_factory=dict)
    suppressions: dict[tuple[str, str, int], Suppression] = field(default_factory=dict)

    def of(self, code: Code, span: Span) -> Level | None:
        """The level of a finding; None when it is silenced."""
        level: Level | None = code.level
        if code.lint:
            suppression = self.suppressions.get((span.file, code.id, span.line))
            if suppression is not None:
                suppression.is_used = True
                return None
            written = self.files.get(span.file, {}).get(code.id)
            if written in LEVELS:
                level = LEVELS[written]
        if level == "warning" and (WARNINGS in self.denied or code.id in self.denied):
            return "error"
        return level

    def unused(self, file: str) -> Iterator[Suppression]:
        """The file's comments that silenced nothing."""
        return (s for s in self.suppressions.values() if s.span.file == file and not s.is_used)


def suppressions(source: Source) -> Iterator[Suppression | Span]:
    """What the comments of a file silence; a comment that cannot be read is given as its place."""
    if _COMMENT.search(source.text) is None:
        return
    target = 0  # the next line that holds more than a comment
    for number in range(len(source.lines), 0, -1):
        text = source.lines[number - 1]
        is_alone = not text.strip() or text.lstrip().startswith("#")
        target = target if is_alone else number
        match = _COMMENT.search(text)
        # A `#` inside a word begins no comment.
        if match is not None and (match.start() == 0 or text[match.start() - 1].isspace()):
            place = Span(source.name, number, match.start() + 1, number, len(text) + 1)
            yield from _read(match, place, target or number)


def _read(match: re.Match[str], place: Span, line: int) -> Iterator[Suppression | Span]:
    allowed = _ALLOW.match(match["rest"].rstrip())
    if allowed is None:
        yield place
        return
    offset = match.start("rest") - match.start() + allowed.start("codes")
    for code in _CODE.finditer(allowed["codes"]):
        yield Suppression(code[0], place.part(offset + code.start(), len(code[0])), line)
