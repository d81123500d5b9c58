"""Writes diagnostics for people: the message, the place with its line, second places and help."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator

from omniflow_compiler.diagnostics import Diagnostic, Report
from omniflow_compiler.source import SourceSet, Span

MAX_LINE = 160


def render_report(report: Report, sources: SourceSet) -> str:
    """All findings and a last line that counts them; empty when there are none."""
    found = list(report)
    if not found:
        return ""
    errors, warnings = report.num_errors, len(found) - report.num_errors
    counts = [_count(errors, "error")] if errors else []
    counts += [_count(warnings, "warning")] if warnings else []
    counts = [f"at least {' and '.join(counts)}"] if report.is_full else counts
    return "\n".join([*(render(diagnostic, sources) for diagnostic in found), f"{', '.join(counts)}\n"])


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"


def render(diagnostic: Diagnostic, sources: SourceSet) -> str:
    """One finding."""
    width = len(str(max([diagnostic.span.line, *(label.span.line for label in diagnostic.labels)])))
    lines = [f"{diagnostic.level}[{diagnostic.code}]: {diagnostic.message}"]
    lines += _place(diagnostic.span, diagnostic.note, "^", "-->", width, sources)
    for label in diagnostic.labels:
        lines += _place(label.span, label.text, "-", ":::", width, sources)
    lines += [f"{' ' * width}= included from {span}" for span in sources.inclusions(diagnostic.span.file)]
    lines += [f"{' ' * width}= help: {text}" for text in diagnostic.help]
    return "\n".join(lines) + "\n"


def _place(span: Span, text: str, mark: str, arrow: str, width: int, sources: SourceSet) -> Iterator[str]:
    source = sources.sources.get(span.file)
    gutter = " " * (width + 1)
    if source is None or not 1 <= span.line <= max(1, len(source.lines)):
        yield f"{gutter[1:]}{arrow} {span.file}" + (f": {text}" if text else "")
        return
    yield f"{gutter[1:]}{arrow} {span}"
    line = _printable(source.lines[span.line - 1]) if source.lines else ""
    end = span.end_column if span.end_line == span.line else len(line) + 1
    start = min(span.column - 1, len(line))
    stop = max(start + 1, min(end - 1, len(line)))
    shift = max(0, min(start - 20, len(line) - MAX_LINE)) if len(line) > MAX_LINE else 0
    shown = line[shift : shift + MAX_LINE]
    before = _width(line[shift:start])
    underline = mark * max(1, _width(line[start : min(stop, shift + MAX_LINE)]))
    yield f"{span.line:>{width}} | {shown}"
    yield f"{gutter}| {' ' * before}{underline}" + (f" {text}" if text else "")


def _printable(line: str) -> str:
    return "".join(" " if c == "\t" else c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in line)


def _width(text: str) -> int:
    """Columns a terminal gives a text: wide characters take two, combining ones none."""
    return sum(0 if unicodedata.combining(c) else 2 if unicodedata.east_asian_width(c) in "WF" else 1 for c in text)
