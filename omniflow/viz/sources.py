"""The spec files that a graph's places name, with a little colour, for the page's source view."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from omniflow.viz.model import Graph

MAX_BYTES = 400_000  # of one file, and
MAX_FILES = 24
_SUFFIXES = (".yaml", ".yml")
_TOKEN = re.compile(
    r"(?P<comment>(?:^|(?<=\s))#.*)"
    r"|(?P<string>\"(?:[^\"\\]|\\.)*\"|'[^']*')"
    r"|(?P<arrow>[~-]>)"
    r"|(?P<key>(?<![\w$.-])[A-Za-z_][\w.-]*(?=\s*:(?:\s|$)))"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    """A piece of a line; `kind` is comment, string, arrow, key or empty."""

    kind: str
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """A file as the schedule names it. `note` says why lines are missing, if they are."""

    name: str
    lines: tuple[tuple[Span, ...], ...]
    note: str


def read_sources(graph: Graph) -> tuple[Source, ...]:
    """Every spec file of the graph, in order of first mention. Only YAML is read: a schedule cannot name secrets."""
    places = [vertex.place for vertex in graph.vertices]
    places += [link.place for link in graph.links] + [family.place for family in graph.families]
    names = list(dict.fromkeys(place.file for place in places if place.line > 0))
    return tuple(_read(name) for name in names[:MAX_FILES])


def spans(line: str) -> tuple[Span, ...]:
    """The line in pieces that add up to it."""
    return tuple(_pieces(line))


def _read(name: str) -> Source:
    path = Path(name)
    if path.suffix not in _SUFFIXES:
        return Source(name=name, lines=(), note="not a YAML file, so it is not shown")
    try:
        if not path.is_file():
            return Source(name=name, lines=(), note="the file was not there when this page was drawn")
        with path.open("rb") as file:
            data = file.read(MAX_BYTES + 1)
    except (OSError, ValueError) as failure:
        return Source(name=name, lines=(), note=f"could not be read: {failure}")
    text = data[:MAX_BYTES].decode("utf-8", errors="replace")
    note = f"only the first {MAX_BYTES:,} bytes are shown" if len(data) > MAX_BYTES else ""
    return Source(name=name, lines=tuple(spans(line) for line in text.splitlines()), note=note)


def _pieces(line: str) -> Iterator[Span]:
    end = 0
    for match in _TOKEN.finditer(line):
        if match.start() > end:
            yield Span(kind="", text=line[end : match.start()])
        yield Span(kind=match.lastgroup or "", text=match[0])
        end = match.end()
    if end < len(line):
        yield Span(kind="", text=line[end:])
