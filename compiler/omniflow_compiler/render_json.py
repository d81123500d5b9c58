"""Writes diagnostics as JSON lines: one object for each finding, keys always the same (`docs/diagnostics.md`)."""

from __future__ import annotations

import json

from omniflow_compiler.diagnostics import Diagnostic, Edit, Label, Report
from omniflow_compiler.source import Span


def render_json(report: Report) -> str:
    """A line of JSON for each finding; empty when there are none."""
    return "".join(f"{json.dumps(as_record(found), ensure_ascii=False)}\n" for found in report)


def as_record(found: Diagnostic) -> dict[str, object]:
    """The finding as JSON values. A place has `file`, and 1-based `line`, `column`, `end_line` and `end_column`."""
    return {
        "code": found.code,
        "level": found.level,
        "message": found.message,
        **place(found.span),
        "note": found.note,
        "labels": [_label(label) for label in found.labels],
        "help": list(found.help),
        "edits": [_edit(edit) for edit in found.edits],
    }


def place(span: Span) -> dict[str, object]:
    """A span's file, lines and columns."""
    return dict(zip(("file", "line", "column", "end_line", "end_column"), span, strict=True))


def _label(label: Label) -> dict[str, object]:
    return {**place(label.span), "text": label.text}


def _edit(edit: Edit) -> dict[str, object]:
    return {**place(edit.span), "text": edit.text, "safe": edit.safe}
