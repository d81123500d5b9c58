"""Between our places (1-based, in characters) and the protocol's (0-based, in the units the client asked for)."""

from __future__ import annotations

import re
from collections.abc import Sequence

from lsprotocol import types
from pygls.workspace import PositionCodec

from omniflow_compiler.source import Span

_BREAK = re.compile("\r\n|\n|\r")


def lines_of(text: str) -> list[str]:
    """The lines of a text, as the protocol counts them."""
    return _BREAK.split(text)


def to_range(span: Span, lines: Sequence[str], codec: PositionCodec, *, visible: bool = False) -> types.Range:
    """The protocol's range of a span; a `visible` one covers one character at least."""
    end_column = span.end_column
    if visible and (span.line, span.column) == (span.end_line, span.end_column):
        end_column += 1
    start = types.Position(line=span.line - 1, character=span.column - 1)
    end = types.Position(line=span.end_line - 1, character=end_column - 1)
    return codec.range_to_client_units(list(lines), types.Range(start=start, end=end))


def to_place(position: types.Position, lines: Sequence[str], codec: PositionCodec) -> tuple[int, int]:
    """Our line and column of the protocol's position."""
    asked = types.Position(line=position.line, character=position.character)
    own = codec.position_from_client_units(list(lines), asked)
    return own.line + 1, own.character + 1


def whole(lines: Sequence[str]) -> types.Range:
    """The range of a whole document."""
    return types.Range(start=types.Position(line=0, character=0), end=types.Position(line=len(lines), character=0))
