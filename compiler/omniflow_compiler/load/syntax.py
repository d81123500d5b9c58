"""Reports a text that is not YAML, in words for a person."""

from __future__ import annotations

import yaml

from omniflow_compiler import codes
from omniflow_compiler.diagnostics import Label, Report
from omniflow_compiler.load.tree import MAX_DEPTH
from omniflow_compiler.source import Source, Span

# What libyaml says, and what it means for a person.
_PROBLEMS = {
    "did not find expected ',' or '}'": "a `}` or a comma is missing",
    "did not find expected ',' or ']'": "a `]` or a comma is missing",
    "mapping values are not allowed in this context": "a colon is not allowed here; quote the text that has one",
    "could not find expected ':'": "a colon is missing after a key",
    "found character that cannot start any token": "this character cannot begin a value; indent with spaces",
    "found unexpected end of stream": "the file ends inside a quoted text",
    "found unexpected document indicator": "the file ends inside a quoted text",
    "did not find expected key": "a key is expected here; look at the indentation and at quotes",
    "did not find expected '-' indicator": "an entry of the list (`- `) is expected here; look at the indentation",
    "did not find expected node content": "a value is expected here",
    "did not find expected alphabetic or numeric character": "an alias (`*name`) or anchor (`&name`) has no name",
    "found undefined alias": "an alias stands for a value that is not there; quote a text that begins with `*`",
    "but found another document": "a file is one document, and a second one begins here",
    "did not find expected <document start>": "the file goes on after its end; look at the indentation",
}

_OPEN = {
    "flow mapping": "this `{` is not closed",
    "flow sequence": "this `[` is not closed",
    "quoted scalar": "this quote is not closed",
    "block mapping": "the mapping begins here",
    "block collection": "the list begins here",
    "simple key": "this key",
}


def report_syntax(error: yaml.MarkedYAMLError, source: Source, report: Report) -> None:
    """A fault of the text, with the place where the unfinished part begins."""
    mark = error.problem_mark or error.context_mark
    problem = str(error.problem)
    if problem.startswith("exceeded maximum nesting depth"):
        report.add(codes.ALIAS_BUDGET, _mark_span(source.name, mark), f"nested deeper than {MAX_DEPTH} levels")
        return
    message = next((meaning for said, meaning in _PROBLEMS.items() if problem.startswith(said)), problem)
    labels = []
    begin = error.context_mark
    if begin is not None and mark is not None and begin.line != mark.line:
        text = next((meaning for said, meaning in _OPEN.items() if said in str(error.context)), "it begins here")
        labels = [Label(span=_mark_span(source.name, begin), text=text)]
    span = _mark_span(source.name, mark)
    if span.line > len(source.lines) > 0:  # at the end of the file: shown behind its last line
        end = len(source.lines[-1]) + 1
        span = Span(source.name, len(source.lines), end, len(source.lines), end)
    report.add(codes.SYNTAX, span, f"not valid YAML: {message}", labels=labels)


def _mark_span(name: str, mark: yaml.Mark | None) -> Span:
    if mark is None:
        return Span(name, 1, 1, 1, 1)
    return Span(name, mark.line + 1, mark.column + 1, mark.line + 1, mark.column + 2)


def report_reader(error: yaml.reader.ReaderError, source: Source, report: Report) -> None:
    """A character that no YAML may hold."""
    before = source.text[: error.position]
    line, column = before.count("\n") + 1, len(before) - before.rfind("\n")
    span = Span(source.name, line, column, line, column + 1)
    report.add(codes.SYNTAX, span, f"not valid YAML: {error.reason}")
