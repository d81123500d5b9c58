"""Reads a file's one YAML document: text, then nodes (`loader.py`), then a tree with places (`convert.py`)."""

from __future__ import annotations

import re
from pathlib import Path

import yaml

from omniflow_compiler import codes
from omniflow_compiler.diagnostics import Report
from omniflow_compiler.load.collection import without_collection
from omniflow_compiler.load.convert import Converter, Stop
from omniflow_compiler.load.lints import read_suppressions
from omniflow_compiler.load.loader import Loader
from omniflow_compiler.load.syntax import report_reader, report_syntax
from omniflow_compiler.load.text import read_source
from omniflow_compiler.load.tree import Mapping, Tree
from omniflow_compiler.source import Source, SourceSet, Span

_TAG = re.compile(r"(?:^|[\s\[{,])!", re.MULTILINE)


def read_document(path: Path, sources: SourceSet, report: Report) -> tuple[Source, Mapping] | None:
    """The file's one document as a mapping; None when it cannot be used, with the reason in the report."""
    source = read_source(path, sources, report)
    if source is None:
        return None
    tree = read_text(source, report)
    if tree is None:
        return None
    if not isinstance(tree, Mapping):
        report.add(codes.WRONG_TYPE, tree.span, "a spec is a mapping of keys to values")
        return None
    read_suppressions(source, tree, report)
    return source, tree


def read_text(source: Source, report: Report) -> Tree | None:
    """Composes and converts a source's text; None with the reason in the report."""
    try:
        with without_collection():
            node = yaml.compose(source.text, Loader=Loader)
            if node is None:
                report.add(codes.SYNTAX, Span(source.name, 1, 1, 1, 1), "file is empty")
                return None
            _refuse_tags(source, report)
            return Converter(source, report).convert(node)
    except yaml.MarkedYAMLError as error:
        report_syntax(error, source, report)
    except yaml.reader.ReaderError as error:
        report_reader(error, source, report)
    except Stop:
        pass
    return None


def _refuse_tags(source: Source, report: Report) -> None:
    """Reports every tag; one that says what a value is anyway can only be seen among the tokens."""
    if _TAG.search(source.text) is None:
        return
    for token in yaml.scan(source.text, Loader=Loader):
        if isinstance(token, yaml.TagToken):
            start, end = token.start_mark, token.end_mark
            span = Span(source.name, start.line + 1, start.column + 1, end.line + 1, end.column + 1)
            written = source.lines[start.line][start.column : end.column] if start.line == end.line else "!"
            help = ["leave the tag out: what a value is follows from where it stands"]
            report.add(codes.TAG, span, f"tag `{written}` is not part of the language", help=help)
            if report.is_full:
                raise Stop
