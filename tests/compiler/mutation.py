"""Breaks a sound spec in one place: the broken text says with «marks» what a finding must underline."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from omniflow_compiler.diagnostics import Diagnostic
from omniflow_compiler.pipeline import Compilation, Options, compile_file

OPEN, CLOSE = "«", "»"
SPECS = Path(__file__).parents[2] / "specs" / "null"
SPEECH = {"card.yaml": "card.yaml", "p.program.yaml": "speech.program.yaml"}
IMAGE = {"card.yaml": "image.card.yaml", "p.program.yaml": "image.program.yaml"}
FRAMES = {"card.yaml": "frames.card.yaml", "p.program.yaml": "frames.program.yaml"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Bad:
    """A sound family of specs and what is changed in it.

    change: by file, pairs of a text that is there once and what stands instead; with an empty first text the second
    is put at the end. codes: what is found, in order of place; every finding lies at the mark of its turn.
    """

    name: str
    codes: Sequence[str]
    change: Mapping[str, Sequence[tuple[str, str]]]
    base: Mapping[str, str]
    check: str = "p.program.yaml"
    help: str = ""  # a text that one of the help lines holds


@dataclass(frozen=True, slots=True)
class Mark:
    """A marked place: the file, and 1-based line, column and end column."""

    file: str
    line: int
    column: int
    end_column: int


def write(bad: Bad, folder: Path) -> list[Mark]:
    """Writes the family into a folder of the project `folder`; the marked places in order."""
    family = folder / "family"
    family.mkdir(exist_ok=True)
    marks: list[Mark] = []
    names = {**dict.fromkeys(bad.change, ""), **bad.base}
    for name in sorted(names):
        text = (SPECS / names[name]).read_text("utf-8") if names[name] else ""
        for old, new in bad.change.get(name, ()):
            assert not old or text.count(old) == 1, f"{bad.name}: `{old}` is {text.count(old)} times in {name}"
            text = text.replace(old, new, 1) if old else text + new
        plain, found = unmark(text, name)
        marks += found
        (family / name).write_bytes(plain.encode("utf-8"))
    return marks


def unmark(text: str, name: str) -> tuple[str, list[Mark]]:
    """The text without marks, and the places that they enclosed."""
    lines, marks = [], []
    for number, line in enumerate(text.split("\n"), start=1):
        while OPEN in line:
            start = line.index(OPEN)
            line = line.replace(OPEN, "", 1)
            stop = line.index(CLOSE)
            line = line.replace(CLOSE, "", 1)
            marks.append(Mark(name, number, start + 1, stop + 1))
        lines.append(line)
    return "\n".join(lines), marks


def check(bad: Bad, folder: Path) -> Compilation:
    """What the compiler says of the written family."""
    return compile_file(folder / "family" / bad.check, Options())


def place(found: Diagnostic) -> Mark:
    """Where a finding begins and, when it is on one line, ends."""
    span = found.span
    return Mark(span.file.rpartition("/")[2], span.line, span.column, span.end_column)
