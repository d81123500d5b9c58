"""Checks that a loop which keeps sessions can go on from what it remembers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from omniflow_compiler import codes
from omniflow_compiler.diagnostics import Label, Report
from omniflow_compiler.graph import Edge, Node, ProgramGraph
from omniflow_compiler.source import Span

PROMPT = "prompt"  # the port whose ids a session remembers


def check_sessions(graph: ProgramGraph, report: Report) -> None:
    """Reports nodes of `session: true` whose turns are not told by what they remember of the turns before."""
    for node in graph.nodes.values():
        spec = node.loop_spec
        if spec is None or node.attributes.get("session") is not True:
            continue
        declared = spec.attributes.get("session")
        labels = [] if declared is None else [Label(span=declared.span, text="a session is asked for here")]
        for span, problem, help in _problems(node, graph.incoming[node.id]):
            report.add(codes.SESSION, span, f"`{node.id}` cannot keep a session: {problem}", labels=labels, help=[help])


def _problems(node: Node, incoming: Sequence[Edge]) -> Iterator[tuple[Span, str, str]]:
    if node.each:
        yield node.span, "it runs once per item, and turns are whole requests", "leave `each` out, or `session`"
    if node.inner is not None:
        yield node.span, "its inner loop's codes are part of what it reads", "leave `session` out"
    decodes = node.loop is not None and node.loop.kind == "ar_decode"  # and remembers nothing but ids
    for edge in incoming if decodes else ():
        port = edge.spec.target.port
        if port != PROMPT:
            what = f"`{port}` tells more than the ids that a session remembers"
            yield edge.spec.span, what, f"feed it by `{PROMPT}` alone, or leave `session` out"
