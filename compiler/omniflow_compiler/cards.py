"""Finds the card of a program and the programs of a card, by id among the files of one folder or by path."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from omniflow_compiler import codes
from omniflow_compiler.diagnostics import Label, Report
from omniflow_compiler.load.document import read_document
from omniflow_compiler.load.tree import Mapping, Scalar
from omniflow_compiler.parse.kind import kind_of
from omniflow_compiler.reads import note_file, note_folder, read_bytes
from omniflow_compiler.source import SourceSet
from omniflow_compiler.spec import CardSpec, Name
from omniflow_compiler.suggest import did_you_mean

MAX_SIBLINGS = 200
_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}\Z")


def find_card(program: Path, name: Name, sources: SourceSet, report: Report) -> tuple[Path, Mapping] | None:
    """The card's file and document; None with the reason in the report."""
    if not name.text:
        return None  # reported as a missing key
    if name.text.endswith((".yaml", ".yml")):
        return _by_path(program, name, sources, report)
    found: dict[str, list[Path]] = {}
    nameless: list[Path] = []
    for path in _files(program.parent, "card"):
        identity = _identity(path, "card")
        if identity is not None and _ID.match(identity[0]):
            found.setdefault(identity[0], []).append(path)
        else:
            nameless.append(path)
    if name.text not in found and nameless:
        return _document(nameless[0], sources, report)  # it says itself why it has no name
    if name.text not in found:
        help = did_you_mean(name.text, found, "card")
        report.add(codes.UNKNOWN_CARD, name.span, f"no card `{name.text}` in this folder", help=help)
        return None
    if len(found[name.text]) > 1:
        _report_twins(found[name.text], sources, report)
        return None
    return _document(found[name.text][0], sources, report)


def _report_twins(paths: list[Path], sources: SourceSet, report: Report) -> None:
    """Cards of one folder with one id: which is meant cannot be known."""
    documents = [_document(path, sources, report) for path in paths]
    first, second = (found[1].entries["id"].value for found in documents[:2] if found is not None)
    names = [path.name for path in paths]
    report.add(
        codes.DUPLICATE_ID,
        second.span,
        f"cards `{names[0]}` and `{names[1]}` have the same id",
        labels=[Label(span=first.span, text="first declared here")],
        help=[f"give one of them another id, or let the program name the file: `card: {names[0]}`"],
    )


def _by_path(program: Path, name: Name, sources: SourceSet, report: Report) -> tuple[Path, Mapping] | None:
    path = (program.parent / name.text).resolve()
    if Path(name.text).is_absolute() or not path.is_relative_to(sources.root):
        help = [f"cards are named by a relative path inside `{sources.root.name}`"]
        report.add(codes.UNKNOWN_CARD, name.span, f"card `{name.text}` is outside the project", help=help)
        return None
    note_file(program.parent / name.text)
    if not path.is_file():
        report.add(
            codes.UNKNOWN_CARD, name.span, f"there is no file `{name.text}`", help=["the path is relative to this file"]
        )
        return None
    return _document(path, sources, report)


def _document(path: Path, sources: SourceSet, report: Report) -> tuple[Path, Mapping] | None:
    document = read_document(path, sources, report)
    if document is None:
        return None
    source, tree = document
    kind = kind_of(tree, report)
    if kind == "card":
        return path, tree
    if kind is not None:
        report.add(codes.KIND, tree.entries["kind"].value.span, f"`{source.name}` is a {kind}, a card is needed")
    return None


def sibling_programs(card_path: Path, card: CardSpec, besides: Path) -> Iterator[Path]:
    """Programs beside the card that name it."""
    for path in _files(card_path.parent, "program"):
        identity = None if path.resolve() == besides.resolve() else _identity(path, "program")
        if identity is not None and identity[1] in (card.id.text, card_path.name, f"./{card_path.name}"):
            yield path


def check_twins(path: Path, id: Name, sources: SourceSet, report: Report) -> None:
    """Reports a program of the same folder with the same id: what is kept under that id would be of either."""
    for other in _files(path.parent, "program"):
        if other.resolve() == path.resolve() or not _mentions(other, id.text):
            continue
        document = read_document(other, sources, Report())
        written = None if document is None else document[1].get("id")
        if isinstance(written, Scalar) and written.value == id.text:
            report.add(
                codes.DUPLICATE_ID,
                id.span,
                f"programs `{path.name}` and `{other.name}` have the same id",
                labels=[Label(span=written.span, text="declared here too")],
                help=["give one of them another id"],
            )
            return


def _mentions(path: Path, text: str) -> bool:
    """Whether a file holds a text; most need not be parsed to know that they are no twins."""
    note_file(path)
    try:
        return text.encode() in read_bytes(path)
    except OSError:
        return False


def cards_beside(path: Path) -> list[str]:
    """The ids of the cards in a file's folder."""
    found = [_identity(each, "card") for each in _files(path.parent, "card")]
    return sorted({identity[0] for identity in found if identity is not None and identity[0]})


def _files(folder: Path, kind: str) -> list[Path]:
    note_folder(folder)
    names = sorted({*folder.glob(f"{kind}.y*ml"), *folder.glob(f"*.{kind}.y*ml")})
    return [path for path in names if path.suffix in (".yaml", ".yml")][:MAX_SIBLINGS]


def _identity(path: Path, kind: str) -> tuple[str, str] | None:
    """The id and the named card of a spec of that kind."""
    document = read_document(path, SourceSet(path.parent), Report())
    if document is None or kind_of(document[1], Report()) != kind:
        return None
    texts = [document[1].get(key) for key in ("id", "card")]
    values = [str(value.value) if isinstance(value, Scalar) else "" for value in texts]
    return values[0], values[1]
