"""A YAML document as pieces of its own text: scalars as written, comments beside what they belong to."""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Protocol

import yaml


@dataclass(slots=True, kw_only=True)
class Leaf:
    """A scalar or an alias as it stands in the file. `style` is YAML's: empty for plain, or one of `'"|>*`."""

    text: str
    style: str
    in_flow: bool
    start: int
    end: int
    indent: int  # column of the mapping or list it belongs to
    is_cut_off: bool = False  # the file ends with it, without a line end

    @property
    def has_lines(self) -> bool:
        """Whether it goes over several lines."""
        return "\n" in self.text or self.style in ("|", ">")


@dataclass(slots=True, kw_only=True)
class Entry:
    """A key with its value, or an item of a list, which begins at its dash.

    `leading` are lines of comments before it, empty for a blank line.
    """

    key: Leaf | None
    value: Piece
    start: int
    leading: list[str] = field(default_factory=list)
    trailing: str = ""

    @property
    def has_comment(self) -> bool:
        return bool(self.trailing) or any(self.leading)


@dataclass(slots=True, kw_only=True)
class Group:
    """A mapping or a list. `tail` are lines of comments after its last entry."""

    is_list: bool
    in_flow: bool
    anchor: str
    start: int
    end: int = 0
    column: int = 0
    entries: list[Entry] = field(default_factory=list)
    tail: list[str] = field(default_factory=list)


Piece = Leaf | Group
_BLANK_END = re.compile(r"(\n *)+\Z")


@dataclass(frozen=True, slots=True, kw_only=True)
class Document:
    """A file's one document. `has_aliases` forbids that anything is moved."""

    root: Group
    has_aliases: bool
    text: str
    comments: tuple[tuple[int, str], ...]  # offset and text


class Lines:
    """Line numbers of offsets."""

    def __init__(self, text: str) -> None:
        self.text = text.split("\n")
        self._starts = [0]
        for line in self.text:
            self._starts.append(self._starts[-1] + len(line) + 1)

    def of(self, offset: int) -> int:
        """The line of an offset, counted from 0."""
        return bisect_right(self._starts, offset) - 1

    def column(self, offset: int) -> int:
        return offset - self._starts[self.of(offset)]

    def is_blank(self, line: int) -> bool:
        return 0 <= line < len(self.text) and not self.text[line].strip()


def cut(text: str) -> Document | None:
    """The pieces of a sound document whose lines end with LF; None when its root is no mapping."""
    reader = _Reader(text)
    root = reader.read()
    if not isinstance(root, Group) or root.is_list:
        return None
    return Document(root=root, has_aliases=reader.has_aliases, text=text, comments=tuple(_comments(text, reader.spans)))


class _Reader:
    """Folds the parser's events into pieces, without recursion."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.has_aliases = False
        self.spans: list[tuple[int, int]] = []
        self.dashes = [
            token.start_mark.index
            for token in yaml.scan(text, Loader=yaml.CSafeLoader)
            if isinstance(token, yaml.BlockEntryToken)
        ]

    def read(self) -> Piece | None:
        open_groups: list[Group] = []
        keys: list[Leaf | None] = []
        root: Piece | None = None
        for event in yaml.parse(self.text, Loader=yaml.CSafeLoader):
            piece: Piece
            if isinstance(event, yaml.MappingStartEvent | yaml.SequenceStartEvent):
                piece = self._group(event)
            elif isinstance(event, yaml.ScalarEvent | yaml.AliasEvent):
                piece = self._leaf(event, open_groups)
            elif isinstance(event, yaml.MappingEndEvent | yaml.SequenceEndEvent):
                piece = open_groups.pop()
                keys.pop()
                piece.end = _at(event.end_mark) if piece.in_flow else _last_end(piece)
                continue
            else:
                continue
            if not open_groups:
                root = piece
            elif open_groups[-1].is_list:
                open_groups[-1].entries.append(Entry(key=None, value=piece, start=self._dash(piece, open_groups[-1])))
            elif keys[-1] is None and isinstance(piece, Leaf):
                keys[-1] = piece
            else:
                key = keys[-1]
                open_groups[-1].entries.append(
                    Entry(key=key, value=piece, start=piece.start if key is None else key.start)
                )
                keys[-1] = None
            if isinstance(piece, Group):
                open_groups.append(piece)
                keys.append(None)
        return root

    def _dash(self, value: Piece, group: Group) -> int:
        """Where an item begins: at the last dash before its value."""
        before = bisect_left(self.dashes, value.start)
        return value.start if group.in_flow or not before else self.dashes[before - 1]

    def _group(self, event: yaml.CollectionStartEvent) -> Group:
        self.has_aliases |= event.anchor is not None
        return Group(
            is_list=isinstance(event, yaml.SequenceStartEvent),
            in_flow=bool(event.flow_style),
            anchor=f"&{event.anchor}" if event.anchor else "",
            start=_at(event.start_mark),
            column=0 if event.start_mark is None else event.start_mark.column,
        )

    def _leaf(self, event: yaml.NodeEvent, open_groups: list[Group]) -> Leaf:
        start, end = _at(event.start_mark), _at(event.end_mark)
        is_alias = isinstance(event, yaml.AliasEvent)
        written = event.style if isinstance(event, yaml.ScalarEvent) else None
        self.has_aliases |= is_alias or event.anchor is not None
        style = "*" if is_alias else (written or "")
        if style in ("|", ">"):
            end = self._end_of_block(start, end)
        self.spans.append((start, end))
        return Leaf(
            text=self.text[start:end],
            style=style,
            in_flow=any(group.in_flow for group in open_groups[-1:]),
            start=start,
            end=end,
            indent=open_groups[-1].column if open_groups else 0,
            is_cut_off=end == len(self.text),
        )

    def _end_of_block(self, start: int, end: int) -> int:
        """A block scalar ends with its last line; blank lines behind it count only where the header keeps them."""
        body = self.text[start:end]
        if "+" in body.split("\n", 1)[0].partition("#")[0]:
            return end
        return start + len(_BLANK_END.sub("", body))


class _Mark(Protocol):
    """PyYAML has two classes of marks, one per parser."""

    @property
    def index(self) -> int: ...


def _at(mark: _Mark | None) -> int:
    return 0 if mark is None else mark.index


def _last_end(group: Group) -> int:
    return group.entries[-1].value.end if group.entries else group.start


def _comments(text: str, spans: list[tuple[int, int]]) -> Iterator[tuple[int, str]]:
    """Between scalars every `#` begins a comment."""
    at = 0
    for start, end in [*sorted(spans), (len(text), len(text))]:
        while (found := text.find("#", at, start)) >= 0:
            stop = text.find("\n", found)
            stop = len(text) if stop < 0 else stop
            yield found, text[found:stop].rstrip()
            at = stop
        at = max(at, end)
