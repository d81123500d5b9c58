"""Reads the nodes of a program."""

from __future__ import annotations

import re

from omniflow_compiler import codes
from omniflow_compiler.diagnostics import Report
from omniflow_compiler.load.tree import Entry, Mapping, Scalar, plain
from omniflow_compiler.parse.keys import attributes_of, name_at
from omniflow_compiler.source import Span
from omniflow_compiler.spec import Attribute, Name, NodeSpec
from omniflow_compiler.suggest import nearest
from omniflow_compiler.validate import validate

MAX_NODES = 200_000
KINDS = ("op", "loop", "graph")

_ID = re.compile(r"[^\s.:>~/-][^\s.:>~/]{0,127}\Z")


def parse_nodes(document: Mapping, report: Report) -> tuple[dict[str, NodeSpec], set[str]]:
    """The nodes by id, and the ids of those that cannot be read."""
    nodes: dict[str, NodeSpec] = {}
    broken: set[str] = set()
    section = document.get("nodes")
    if not isinstance(section, Mapping):
        return nodes, broken
    if len(section.entries) > MAX_NODES:
        report.add(codes.BAD_VALUE, section.span.start, f"{len(section.entries)} nodes, the limit is {MAX_NODES}")
        return nodes, set(section.entries)
    for name, entry in section.entries.items():
        node = None if report.is_full else _node(name, entry, report)
        if node is None:
            broken.add(name)
        else:
            nodes[name] = node
    return nodes, broken


def _node(name: str, entry: Entry, report: Report) -> NodeSpec | None:
    if not _ID.match(name):
        help = ["no spaces, dots, colons, slashes, arrows, or dashes at the front"]
        report.add(codes.BAD_VALUE, entry.key, f"`{name}` cannot be a node's id", help=help)
        return None
    tree = entry.value
    if not validate(tree, "program", "node", report, f"node `{name}`") or not isinstance(tree, Mapping):
        return None
    kind = _kind(name, entry.key, tree, report)
    if kind is None:
        return None
    when = tree.entries.get("when")
    each = tree.get("each")
    return NodeSpec(
        id=Name(text=name, span=entry.key),
        kind=kind,
        name=name_at(tree, kind),
        component=name_at(tree, "with") if "with" in tree.entries else None,
        each=isinstance(each, Scalar) and each.value is True,
        when=None if when is None else Attribute(value=plain(when.value), key_span=when.key, span=when.value.span),
        attributes=attributes_of(tree, *KINDS, "with", "each", "when"),
        span=tree.span,
    )


def _kind(name: str, key: Span, tree: Mapping, report: Report) -> str | None:
    """Whether a node is an op, a loop or a graph; None with the reason in the report."""
    written = [kind for kind in tree.entries if kind in KINDS]
    if not written:
        keys = () if report.is_crowded else tree.entries
        meant = [other for other in keys if nearest(other, KINDS, most=1)]
        span = tree.entries[meant[0]].key if meant else key
        report.add(codes.MISSING_KEY, span, f"node `{name}` has no `op`, `loop` or `graph`")
        return None
    if len(written) > 1:
        span = tree.entries[written[1]].key
        report.add(codes.BAD_VALUE, span, f"node `{name}` has both `{written[0]}` and `{written[1]}`")
        return None
    return written[0]
