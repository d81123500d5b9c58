"""Checks where caches go that are handed on by reference: to loops of the component that wrote them, nowhere else."""

from __future__ import annotations

from omniflow_compiler import codes
from omniflow_compiler.diagnostics import Label, Report
from omniflow_compiler.graph import Edge, Node, ProgramGraph

CACHE = "kv"


def check_handed(graph: ProgramGraph, report: Report) -> None:
    """Reports caches that another component would read, and caches that would leave the program."""
    for edge in graph.edges:
        if edge.source_port is None or edge.source_port.pattern.base != CACHE or edge.source_node is None:
            continue
        source, target = graph.nodes[edge.source_node], graph.nodes[edge.target_node]
        if target.is_known and _owner(source) != _owner(target):
            _report(edge, source, target, report)
    for output in graph.program.outputs.values():
        node = graph.nodes.get(output.ref.node or "")
        port = node.outputs.get(output.ref.port) if node is not None and node.is_known else None
        if node is not None and port is not None and port.pattern.base == CACHE:
            report.add(
                codes.HANDED,
                output.ref.span,
                f"output `{output.name.text}` is a cache of `{_owner(node)}`, which cannot leave the program",
                help=["name an output of a loop that reads it"],
            )


def _owner(node: Node) -> str:
    return node.component.spec.name.text if node.component is not None else ""


def _report(edge: Edge, source: Node, target: Node, report: Report) -> None:
    reader = f"`{_owner(target)}`" if _owner(target) else "no component"
    labels = []
    if source.component is not None:
        labels.append(Label(span=source.component.spec.span, text="it was written by this component"))
    report.add(
        codes.HANDED,
        edge.spec.source.span,
        f"`{edge.spec.source}` is a cache of `{_owner(source)}`, `{edge.spec.target}` reads with {reader}",
        labels=labels,
        help=[
            f"bind both loops to one component: keys and values mean nothing to other weights than `{_owner(source)}`'s"
        ],
    )
