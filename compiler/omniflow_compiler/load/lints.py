"""Registers what a file says of lints: under `lints:`, and in comments that silence one on a line."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator

from omniflow_compiler import codes
from omniflow_compiler.diagnostics import Report
from omniflow_compiler.levels import Suppression, suppressions
from omniflow_compiler.load.tree import Mapping, Scalar, Tree, Unread
from omniflow_compiler.source import Source, Span
from omniflow_compiler.suggest import did_you_mean


def read_suppressions(source: Source, tree: Tree, report: Report) -> None:
    """Registers what the file's comments silence; a `#` inside a quoted text or a block of text begins no comment."""
    texts = _Texts(tree)
    for found in suppressions(source):
        if texts.cover(found.span if isinstance(found, Suppression) else found):
            continue
        if not isinstance(found, Suppression):
            help = ["write `# omniflow: allow OF2006`, several codes with commas"]
            report.add(codes.BAD_SUPPRESSION, found, "this comment cannot be read, so it silences nothing", help=help)
        elif _is_known_lint(found.code, found.span, report):
            report.levels.suppressions[found.span.file, found.code, found.line] = found


class _Texts:
    """Where the texts of a document are that may hold a `#`."""

    def __init__(self, tree: Tree) -> None:
        self.tree = tree
        self.found: list[Span] | None = None

    def cover(self, place: Span) -> bool:
        """Whether a place lies in one of them."""
        if self.found is None:
            self.found = sorted(_texts(self.tree), key=lambda span: (span.line, span.column))
        here = (place.line, place.column)
        index = bisect_right(self.found, here, key=lambda span: (span.line, span.column)) - 1
        return index >= 0 and here < (self.found[index].end_line, self.found[index].end_column)


def _texts(tree: Tree) -> Iterator[Span]:
    stack = [tree]
    while stack:
        part = stack.pop()
        if isinstance(part, Scalar):
            if isinstance(part.value, str) and "#" in part.value:
                yield part.span
        elif not isinstance(part, Unread):
            stack += [entry.value for entry in part.entries.values()] if isinstance(part, Mapping) else part.items


def read_levels(document: Mapping, report: Report) -> None:
    """Registers what the file says under `lints:`; the form of its values is the schema's."""
    lints = document.get("lints")
    if not isinstance(lints, Mapping):
        return
    levels = report.levels.files.setdefault(document.span.file, {})
    for code, entry in lints.entries.items():
        if report.is_full:
            break
        if _is_known_lint(code, entry.key, report) and isinstance(entry.value, Scalar):
            levels[code] = str(entry.value.value)


def _is_known_lint(code: str, span: Span, report: Report) -> bool:
    known = codes.CODES.get(code)
    if known is not None and known.lint:
        return True
    if known is not None:
        help = ["mend the fault, or take the code out"]
        report.add(codes.FIXED_LEVEL, span, f"`{code}` is always an error ({known.title})", help=help)
    else:
        lints = [] if report.is_crowded else [other.id for other in codes.CODES.values() if other.lint]
        help = did_you_mean(code, lints, "lint") if lints else []
        report.add(codes.UNKNOWN_LINT, span, f"unknown code `{code}`", help=help)
    return False
