"""Formats a spec's text: canonical layout, every comment kept, the meaning unchanged."""

from __future__ import annotations

import re
from collections import Counter

from omniflow_compiler.diagnostics import Report
from omniflow_compiler.layout.comments import tie_comments
from omniflow_compiler.layout.pieces import cut
from omniflow_compiler.layout.writer import write_document
from omniflow_compiler.load.document import read_text
from omniflow_compiler.load.tree import Mapping, Scalar, Sequence, Tree
from omniflow_compiler.parse.kind import kind_of
from omniflow_compiler.source import Source

ODD_BREAKS = re.compile("[\x85\u2028\u2029]")
_SPACES = re.compile(r"\s*(->|~>)\s*")


class FormatError(Exception):
    """A text that cannot be laid out; the message says why."""


def format_text(source: Source, report: Report) -> str | None:
    """The canonical text of a spec; None when it cannot be read, with the reason in the report. Errors: FormatError."""
    tree = read_text(source, report)
    if tree is None or report.num_errors:
        return None
    if not isinstance(tree, Mapping):
        raise FormatError(f"{source.name}: it is no spec: a spec is a mapping of keys to values")
    kind = kind_of(tree, Report())
    text = source.text.replace("\r\n", "\n").replace("\r", "\n").removeprefix("\ufeff")
    odd = ODD_BREAKS.search(text)
    if odd is not None:
        line = text.count("\n", 0, odd.start()) + 1
        raise FormatError(f"{source.name}:{line}: an unusual line break (U+{ord(odd[0]):04X}); replace it")
    document = cut(text)
    if document is None or kind is None:
        raise FormatError(f"{source.name}: it is no spec; begin it with `omniflow: 1` and its `kind`")
    comments = Counter(text for _, text in document.comments)
    head = tie_comments(document)
    result = write_document(document, head, kind)
    _check_same(source, tree, comments, result)
    return result


def _check_same(source: Source, tree: Tree, comments: Counter[str], result: str) -> None:
    """Errors: FormatError, when anything but the layout would change."""
    again = Source(name=source.name, path=source.path, text=result, lines=())
    report = Report()
    written = read_text(again, report)
    pieces = cut(result) if written is not None else None
    if written is None or pieces is None or report.num_errors or _meaning(written) != _meaning(tree):
        raise FormatError(f"{source.name}: it is written in a way that cannot be laid out; please report it")
    if sum((comments - Counter(_split(pieces.comments))).values()):
        raise FormatError(f"{source.name}: a comment would be lost; please report it")


def _split(comments: tuple[tuple[int, str], ...]) -> list[str]:
    """Comments, and the parts of those that two comments of one line were joined into."""
    texts = [text for _, text in comments]
    return texts + [part for text in texts for part in re.split(r"  (?=#)", text) if part != text]


def _meaning(tree: Tree) -> object:
    """The tree without places; keys have no order, edges no spaces."""
    if isinstance(tree, Scalar):
        text = _SPACES.sub(r"\1", tree.written) if isinstance(tree.value, str) else tree.written
        return type(tree.value).__name__, text
    if isinstance(tree, Mapping):
        return {_SPACES.sub(r"\1", key): _meaning(entry.value) for key, entry in tree.entries.items()}
    return [_meaning(item) for item in tree.items] if isinstance(tree, Sequence) else None
