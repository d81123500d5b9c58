"""Writes diagnostics as JSON lines: one object for each finding, keys always the same (`docs/diagnostics.md`)."""

from __future__ import annotations

import json

from omniflow_compiler.diagnostics import Diagnostic, Report
from omniflow_compiler.source import SourceSet, Span


def render_json(report: Report, sources: SourceSet) -> str:
    """A line of JSON for each finding; empty when there are none."""
    return "".join(f"{json.dumps(as_record(found, sources), ensure_ascii=False)}\n" for found in report)


def as_record(found: Diagnostic, sources: SourceSet) -> dict[str, object]:
    """The finding as JSON values. A place has `file`, and 1-based `line`, `column`, `end_line` and `end_column`.

    `file` leads there from the working folder, or is `<command line>`.
    """
    return {
        "code": found.code,
        "level": found.level,
        "message": found.message,
        **_place(found.span, sources),
        "note": found.note,
        "labels": [{**_place(label.span, sources), "text": label.text} for label in found.labels],
        "help": list(found.help),
        "edits": [{**_place(edit.span, sources), "text": edit.text, "safe": edit.safe} for edit in found.edits],
    }


def _place(span: Span, sources: SourceSet) -> dict[str, object]:
    return {
        "file": sources.path_of(span.file),
        "line": span.line,
        "column": span.column,
        "end_line": span.end_line,
        "end_column": span.end_column,
    }
