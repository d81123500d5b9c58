"""Reads the edges of a program or workflow."""

from __future__ import annotations

import re
from collections.abc import Mapping as MappingOf
from dataclasses import replace

from omniflow_compiler import codes
from omniflow_compiler.diagnostics import Edit, Report
from omniflow_compiler.load.tree import Mapping, Scalar, Tree
from omniflow_compiler.parse.keys import attributes_of, items_at
from omniflow_compiler.parse.refs import REF, mentions
from omniflow_compiler.source import Span
from omniflow_compiler.spec import Attribute, EdgeSpec, PortRef
from omniflow_compiler.validate import first_line, validate

_EDGE = re.compile(rf"\s*(?P<source>{REF})\s*(?P<arrow>->|~>)\s*(?P<target>{REF})\s*\Z")


def parse_edges(document: Mapping, report: Report) -> tuple[tuple[EdgeSpec, ...], frozenset[str]]:
    """The edges, and everything that a line which is no edge mentions: it may be what was meant."""
    edges: list[EdgeSpec] = []
    mentioned: set[str] = set()
    for order, item in enumerate(items_at(document, "edges")):
        if report.is_full:
            break
        written = _written_edge(item, report)
        edge = None if written is None else _edge(*written, order, report)
        if edge is not None:
            edges.append(edge)
        else:
            mentioned.update(mentions(item))
    return tuple(edges), frozenset(mentioned)


def _written_edge(item: Tree, report: Report) -> tuple[str, Span, dict[str, Attribute] | None] | None:
    """An edge's text, its place and its attributes; these are None when they are faulty."""
    if isinstance(item, Scalar) and isinstance(item.value, str):
        return item.value, item.span, {}
    if isinstance(item, Mapping) and len(item.entries) == 1:
        ((text, entry),) = item.entries.items()
        if isinstance(entry.value, Scalar) and entry.value.value is None:
            help = ["leave the colon out, or write attributes: `{chunk: 32}`"]
            report.add(codes.BAD_EDGE, entry.key, "the edge ends with a colon but has no attributes", help=help)
            return text, entry.key, None
        is_sound = validate(entry.value, "program", "edge", report, "the edge")
        attributes = attributes_of(entry.value) if is_sound and isinstance(entry.value, Mapping) else None
        return text, entry.key, attributes
    help = ["write `- a.x -> b.y`, with attributes `- a.x ~> b.y: {chunk: 32}`"]
    if isinstance(item, Mapping) and item.entries:
        help = ["indent the attributes below the edge, or write them behind it: `- a.x ~> b.y: {chunk: 32}`"]
    report.add(codes.BAD_EDGE, first_line(item), "an entry of `edges` is no edge", help=help)
    return None


def _edge(
    text: str, span: Span, attributes: MappingOf[str, Attribute] | None, order: int, report: Report
) -> EdgeSpec | None:
    match = _EDGE.match(text)
    if match is None:
        fixed = _fixed_edge(text)
        help = [f"write `{fixed or 'node.port -> node.port` for a finished value, `node.port ~> node.port'}`"]
        edits = [Edit(span=span, text=fixed)] if fixed else []
        report.add(codes.BAD_EDGE, span, f"`{text[:80]}` is no edge", help=help, edits=edits)
        return None
    offset = 1 if span.end_column - span.column == len(text) + 2 else 0  # a quoted edge
    target = _ref(match, "target", span, offset)
    return EdgeSpec(
        source=_ref(match, "source", span, offset),
        target=target if target.node is not None else replace(target, node=target.port, port=""),
        streams=match["arrow"] == "~>",
        attributes=attributes or {},
        is_sound=attributes is not None,
        order=order,
        span=span,
    )


def _fixed_edge(text: str) -> str | None:
    """What was probably meant by a text that is no edge."""
    for wrong, right in (("=>", "->"), ("-->", "->"), ("~~>", "~>"), ("→", "->"), ("- >", "->"), ("~ >", "~>")):
        if wrong in text and _EDGE.match(text.replace(wrong, right)):
            return text.replace(wrong, right)
    for wrong, right in (("<-", "->"), ("<~", "~>")):
        target, arrow, source = text.partition(wrong)
        if arrow and _EDGE.match(f"{source} {right} {target}"):
            return f"{source.strip()} {right} {target.strip()}"
    return None


def _ref(match: re.Match[str], group: str, span: Span, offset: int) -> PortRef:
    text = match[group]
    node, dot, port = text.partition(".")
    where = span.part(offset + match.start(group), len(text)) if span.line == span.end_line else span
    return PortRef(node=node if dot else None, port=port if dot else node, span=where)
