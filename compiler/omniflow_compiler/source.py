"""Source files and spans: where in which file something was written."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from omniflow_compiler.reads import real_path


class Span(NamedTuple):
    """A range in a file as the user named it; lines and columns are 1-based, the end is exclusive."""

    file: str
    line: int
    column: int
    end_line: int
    end_column: int

    @property
    def start(self) -> Span:
        """The empty span at this span's beginning."""
        return Span(self.file, self.line, self.column, self.line, self.column)

    def part(self, offset: int, length: int) -> Span:
        """A range inside a single-line span, `offset` and `length` in characters."""
        column = self.column + offset
        return Span(self.file, self.line, column, self.line, column + length)

    def __str__(self) -> str:
        return self.file if self.file.startswith("<") else f"{self.file}:{self.line}:{self.column}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """One file that was read: `name` as shown to people, its text and lines."""

    name: str
    path: Path
    text: str
    lines: tuple[str, ...]


@dataclass(slots=True)
class SourceSet:
    """The files of one compilation, by the name under which they are shown; paths stay inside `root`."""

    root: Path
    sources: dict[str, Source] = field(default_factory=dict)
    included_from: dict[str, Span] = field(default_factory=dict)

    def name_of(self, path: Path) -> str:
        """How a path is shown: relative to the working folder, or to the project when that is elsewhere."""
        resolved = real_path(path)
        for base in (Path.cwd(), self.root):
            if resolved.is_relative_to(base):
                return resolved.relative_to(base).as_posix()
        return f"{resolved.parent.name}/{resolved.name}"

    def path_of(self, name: str) -> str:
        """A shown name as a path that leads to the file from the working folder; other names stay as they are."""
        source = self.sources.get(name)
        if source is None:
            return name
        here = Path.cwd()
        return source.path.relative_to(here).as_posix() if source.path.is_relative_to(here) else str(source.path)

    def inclusions(self, name: str) -> list[Span]:
        """The places that led to a file, nearest first; none for the file that was named on the command line."""
        chain: list[Span] = []
        while name in self.included_from and len(chain) < 32:
            chain.append(self.included_from[name])
            name = chain[-1].file
        return chain

    def add(self, path: Path, text: str) -> Source:
        """Registers a text under the path's shown name."""
        name = self.name_of(path)
        source = Source(name=name, path=path.resolve(), text=text, lines=tuple(text.splitlines()))
        self.sources[name] = source
        return source
