"""Writes diagnostics as GitHub annotations: `::error file=...,line=...,title=...::message`."""

from __future__ import annotations

from omniflow_compiler.codes import CODES
from omniflow_compiler.diagnostics import Diagnostic, Report
from omniflow_compiler.source import SourceSet


def render_github(report: Report, sources: SourceSet) -> str:
    """A workflow command for each finding; empty when there are none."""
    return "".join(_annotation(found, sources) for found in report)


def _annotation(found: Diagnostic, sources: SourceSet) -> str:
    span = found.span
    properties: dict[str, object] = {}
    if span.file in sources.sources:
        file = sources.path_of(span.file)
        properties = {"file": file, "line": span.line, "endLine": span.end_line, "col": span.column}
        if span.end_line == span.line:
            properties["endColumn"] = span.end_column
    properties["title"] = f"{found.code}: {CODES[found.code].title}"
    written = ",".join(f"{name}={_property(str(value))}" for name, value in properties.items())
    places = [f"{label.span}: {label.text}" for label in found.labels]
    lines = [found.message, *places, *(f"help: {text}" for text in found.help)]
    return f"::{found.level} {written}::{_data(chr(10).join(lines))}\n"


def _data(text: str) -> str:
    """What a command's message may not hold is written as in a URL."""
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")
