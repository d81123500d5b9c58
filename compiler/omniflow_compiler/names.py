"""Names: whether one can be a file's, and the report of one that is not there."""

from __future__ import annotations

import re
from collections.abc import Mapping

from omniflow_compiler import codes
from omniflow_compiler.diagnostics import MAX_PLACES, Edit, Report
from omniflow_compiler.source import Span
from omniflow_compiler.spec import Name
from omniflow_compiler.suggest import did_you_mean, nearest

MAX_FILE_NAME = 128
_FILE_NAME = re.compile(r"[^\s.:>~/\\-][^\s.:>~/\\]*\Z")


def is_file_name(name: str) -> bool:
    """Whether a name, with a suffix behind it, names a file of the folder that it is written into, and no other."""
    return name.isprintable() and len(name.encode()) <= MAX_FILE_NAME and _FILE_NAME.match(name) is not None


def within(text: str, span: Span, name: str) -> Span:
    """The name's place inside the text of an expression, or all of it where that cannot be told (a param's value)."""
    found = re.search(rf"(?<![\w.]){re.escape(name)}(?![\w.])", text)
    quote = span.end_column - span.column - len(text)
    if found is None or span.line != span.end_line or quote not in (0, 2):
        return span
    return span.part(quote // 2 + found.start(), len(name))


def unknown(
    report: Report, code: codes.Code, name: Name, known: Mapping[str, object], what: str, near: str = ""
) -> None:
    """Reports a name that is not there, with the nearest ones."""
    message = f"unknown {what} `{name.text}`{near}"
    before = report.known(code, message)
    if before is not None and len(before.labels) + 1 >= MAX_PLACES and not before.edits:
        report.num_repeats += 1
        return  # nothing of it would be shown
    if before is not None:  # the nearest name was looked for
        edits = [Edit(span=name.span, text=edit.text) for edit in before.edits[:1]]
        report.add(code, name.span, message, help=before.help, edits=edits)
        return
    known = {} if report.is_crowded else known
    close = nearest(name.text, known, most=1)
    help = [] if report.is_crowded else did_you_mean(name.text, known, what)
    edits = [Edit(span=name.span, text=close[0])] if close else []
    report.add(code, name.span, message, help=help, edits=edits)
