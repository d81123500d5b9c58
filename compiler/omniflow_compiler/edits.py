"""Applies the edits of diagnostics to a file's text: all of them or, where two of them overlap, none."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise

from omniflow_compiler.diagnostics import Diagnostic, Edit
from omniflow_compiler.source import Span

_BREAK = re.compile("\r\n|[\n\r\x85\u2028\u2029]")  # what YAML's parser counts as the end of a line


class OverlapError(Exception):
    """Two edits change the same text; the message names the place."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Applied:
    """An edit that was made: where, what stood there, what stands there now, and for which code."""

    span: Span
    before: str
    after: str
    code: str


class Offsets:
    """Offsets of the lines and columns of a text."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._starts = [0, *(match.end() for match in _BREAK.finditer(text))]

    def of(self, line: int, column: int) -> int:
        """The offset of a 1-based line and column, kept inside the text."""
        start = self._starts[min(line, len(self._starts)) - 1]
        return min(start + column - 1, len(self._text))

    def place(self, offset: int) -> tuple[int, int]:
        """The 1-based line and column of an offset."""
        line = bisect_left(self._starts, offset + 1)
        return line, offset - self._starts[line - 1] + 1


def safe_edits(found: Iterable[Diagnostic]) -> list[tuple[str, Edit]]:
    """The safe edits of all findings with their codes, each once, in the order of the file."""
    edits = {(edit, diagnostic.code) for diagnostic in found for edit in diagnostic.edits if edit.safe}
    unique = dict(sorted(edits, key=lambda pair: (pair[0].span, pair[0].text, pair[1])))
    return [(code, edit) for edit, code in unique.items()]


def apply_edits(text: str, edits: Sequence[tuple[str, Edit]]) -> tuple[str, list[Applied]]:
    """The text with all edits made. Errors: OverlapError."""
    offsets = Offsets(text)
    ranges = sorted(
        (offsets.of(e.span.line, e.span.column), offsets.of(e.span.end_line, e.span.end_column), e.text, code, e.span)
        for code, e in edits
    )
    for first, second in pairwise(ranges):
        if second[0] < first[1] or first[:2] == second[:2]:
            raise OverlapError(f"{second[4]}: two fixes change the same text")
    parts, at, applied = [], 0, []
    for start, end, replacement, code, span in ranges:
        parts += [text[at:start], replacement]
        applied.append(Applied(span=span, before=text[start:end], after=replacement, code=code))
        at = end
    return "".join([*parts, text[at:]]), applied
