"""Converts composed nodes to a tree: no duplicate keys, tags or merge keys; depth and aliases budgeted."""

from __future__ import annotations

import yaml

from omniflow_compiler import codes
from omniflow_compiler.diagnostics import Label, Report
from omniflow_compiler.load.loader import TEXT, has_tag
from omniflow_compiler.load.scalars import MAX_NUMBER, resolve
from omniflow_compiler.load.tree import MAX_DEPTH, Entry, Mapping, Scalar, Sequence, Tree, Unread
from omniflow_compiler.source import Source, Span

MAX_EXPANDED_BY_ALIASES = 100_000


class Stop(Exception):
    """The document cannot be used any further; the reason is in the report."""


class Converter:
    """Turns composed nodes into trees; shared nodes (aliases) are converted once and their expansion is budgeted."""

    def __init__(self, source: Source, report: Report) -> None:
        self.name = source.name
        self.report = report
        self.done: dict[int, tuple[Tree, int]] = {}
        self.open: set[int] = set()
        self.converted = 0
        self.expanded = 0
        self.params = 0  # texts that begin with `$` so far

    def convert(self, node: yaml.Node, depth: int = 0) -> Tree:
        """A node's tree; raises `Stop`."""
        if isinstance(node, yaml.ScalarNode):
            return self._scalar(node)
        key = id(node)
        if key in self.done:
            return self._alias(node)
        if key in self.open:
            self._stop(node, "alias contains itself")
        if depth > MAX_DEPTH:
            self._stop(node, f"nested deeper than {MAX_DEPTH} levels")
        self.open.add(key)
        before = self.converted
        self.converted += 1
        tree = self._mapping(node, depth) if isinstance(node, yaml.MappingNode) else self._sequence(node, depth)
        self.open.discard(key)
        self.done[key] = tree, self.converted - before
        return tree

    def _scalar(self, node: yaml.ScalarNode) -> Tree:
        self.converted += 1
        span = self.span(node)
        value = resolve(node)
        if node.tag != TEXT and not has_tag(node, "str"):
            return Unread(span)
        if isinstance(value, int | float) and not -MAX_NUMBER <= value <= MAX_NUMBER:
            help = [f"numbers go up to {MAX_NUMBER}; quote it if it is meant as text"]
            self.report.add(codes.BAD_VALUE, span, f"`{node.value[:40]}` is too large a number", help=help)
            return Unread(span)
        if node.value[:1] == "$":
            self.params += 1
        return Scalar(value, span, node.value)

    def span(self, node: yaml.Node) -> Span:
        start, end = node.start_mark, node.end_mark
        return Span(self.name, start.line + 1, start.column + 1, end.line + 1, end.column + 1)

    def _sequence(self, node: yaml.Node, depth: int) -> Tree:
        before = self.params
        items = tuple([self.convert(child, depth + 1) for child in node.value])
        return (
            Sequence(items, self.span(node), self.params > before) if has_tag(node, "seq") else Unread(self.span(node))
        )

    def _mapping(self, node: yaml.Node, depth: int) -> Tree:
        entries: dict[str, Entry] = {}
        is_usable, before, repeats = has_tag(node, "map"), self.params, 0
        for key_node, value_node in node.value:
            key, key_span = self._key(key_node), self.span(key_node)
            value = self.convert(value_node, depth + 1)
            if key == "<<" and not key_node.style:
                is_usable = False
            if key in entries:
                first = Label(span=entries[key].key, text="first written here")
                self.report.add(codes.DUPLICATE_KEY, key_span, f"key `{key}` is written twice", labels=[first])
                if self.report.is_full:
                    raise Stop
                repeats += 1
                continue
            entries[key] = Entry(key_span, value)
        if not is_usable:
            return Unread(self.span(node))
        return Mapping(entries, self.span(node), self.params > before, repeats)

    def _key(self, node: yaml.Node) -> str:
        if not isinstance(node, yaml.ScalarNode):
            self.report.add(codes.SYNTAX, self.span(node), "keys are plain text, not lists or mappings")
            raise Stop
        if node.value == "<<" and not node.style:
            help = ["write the keys out"]
            self.report.add(codes.TAG, self.span(node), "merge keys (`<<`) are not part of the language", help=help)
        return str(node.value)

    def _alias(self, node: yaml.Node) -> Tree:
        tree, size = self.done[id(node)]
        self.params += 1  # there may be some in it
        self.converted += size  # what an alias stands for counts wherever it is used
        self.expanded += size
        if self.expanded > MAX_EXPANDED_BY_ALIASES:
            self._stop(node, f"aliases stand for more than {MAX_EXPANDED_BY_ALIASES} values")
        return tree

    def _stop(self, node: yaml.Node, why: str) -> None:
        self.report.add(codes.ALIAS_BUDGET, self.span(node), why)
        raise Stop
