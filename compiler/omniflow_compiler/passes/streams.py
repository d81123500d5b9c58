"""Checks the `~>` edges: what may stream into what, enough context, equal cuts, no deadlock, bounded channels."""

from __future__ import annotations

from collections.abc import Iterable

from omniflow_compiler import codes
from omniflow_compiler.diagnostics import Label, Report
from omniflow_compiler.graph import Edge, Node, ProgramGraph
from omniflow_compiler.library.signature import Port
from omniflow_compiler.passes.conservation import check_conservation
from omniflow_compiler.passes.deadlock import check_deadlock
from omniflow_compiler.passes.types import Types
from omniflow_compiler.suggest import did_you_mean

CONTEXTS = ("left_context", "right_context")
CUTS = ("chunk", "first_chunk", *CONTEXTS)
STREAM_ATTRIBUTES = (*CUTS, "capacity", "start", "when_empty")


def check_streams(graph: ProgramGraph, types: Types, report: Report) -> None:
    """Reports every faulty stream."""
    for edge in graph.edges:
        node = graph.nodes[edge.target_node]
        if not node.is_known or edge.target_port is None or not edge.spec.is_sound:
            continue
        if edge.spec.streams:
            _check_port(edge, edge.target_port, node, types, report)
            _check_capacity(edge, graph, report)
            _check_end(edge, node, report)
        else:
            _check_no_attributes(edge, report)
    for node in graph.nodes.values():
        _check_cuts(node, graph, report)
    check_conservation(graph, types, report)
    check_deadlock(graph, types, report)


def _check_port(edge: Edge, port: Port, node: Node, types: Types, report: Report) -> None:
    if port.streams or node.each:
        if not port.streams:
            _refuse(CUTS, edge, f"`{edge.spec.target}` takes each item whole", report)
        elif node.op is not None and not node.op.overlaps:
            _refuse(CONTEXTS, edge, f"op `{node.op.name}` would take what is in two pieces for new both times", report)
        return
    arriving = types.inputs.get((node.id, port.name))
    if arriving is not None and arriving.is_items and not port.pattern.is_items:
        return  # reported as items that meet a port for one
    report.add(
        codes.STREAM_INTO_VALUE,
        edge.spec.span,
        f"`{edge.spec.target}` takes a finished value, not a stream",
        help=[f"write `{edge.spec.source} -> {edge.spec.target}`"],
    )


def _refuse(names: Iterable[str], edge: Edge, why: str, report: Report) -> None:
    for name in names:
        written = edge.spec.attributes.get(name)
        if written is not None:
            report.add(codes.STREAM_ATTRIBUTE, written.key_span, f"`{name}` has no meaning here", help=[why])


def _check_capacity(edge: Edge, graph: ProgramGraph, report: Report) -> None:
    """A value that comes as a whole, once, is never held back: no capacity bounds it."""
    source = graph.nodes.get(edge.source_node or "")
    is_input = edge.source_node is None
    if is_input or (source is not None and source.loop is not None and not source.each and _is_whole(edge)):
        _refuse(["capacity"], edge, f"`{edge.spec.source}` comes as a whole, and the channel holds all of it", report)


def _is_whole(edge: Edge) -> bool:
    return edge.source_port is not None and not edge.source_port.streams


def _check_no_attributes(edge: Edge, report: Report) -> None:
    for name in STREAM_ATTRIBUTES:
        written = edge.spec.attributes.get(name)
        if written is not None:
            report.add(
                codes.STREAM_ATTRIBUTE,
                written.key_span,
                f"`{name}` has no meaning on an edge that carries a finished value",
                help=[f"write `{edge.spec.source} ~> {edge.spec.target}` to stream"],
            )


def _check_cuts(node: Node, graph: ProgramGraph, report: Report) -> None:
    """The streams of one node advance together, so they are cut at the same places."""
    cut = [edge for edge in graph.incoming[node.id] if edge.spec.streams and any(_cut(edge))]
    streams = [
        edge
        for edge in graph.incoming[node.id]
        if edge.spec.streams and edge.target_port is not None and edge.target_port.streams
    ]
    is_sound = all(edge.spec.is_sound for edge in graph.incoming[node.id])
    if not cut or not is_sound or not node.is_known or node.op is not None:
        return
    first = cut[0]
    for edge in streams:
        mine, its = _cut(first), _cut(edge)
        if mine != its:
            report.add(
                codes.CHUNK_ALIGNMENT,
                edge.spec.span,
                f"`{edge.spec.target}` is cut into {_said(its)}, `{first.spec.target}` into {_said(mine)}",
                labels=[Label(span=first.spec.span, text=f"cut into {_said(mine)}")],
                help=["give both the same `chunk` and `first_chunk`"],
            )


def _cut(edge: Edge) -> tuple[int, int]:
    """New elements of the first window and of those after it."""
    chunk = edge.attribute("chunk", 0)
    return edge.attribute("first_chunk", chunk), chunk


def _said(cut: tuple[int, int]) -> str:
    first, chunk = cut
    rest = f"pieces of {chunk}" if chunk else "pieces as produced"
    return rest if first == chunk else f"a first piece of {first} and then {rest}"


def _check_end(edge: Edge, node: Node, report: Report) -> None:
    """What a loop reads once a stream has ended that it takes one element of at each step."""
    written = edge.spec.attributes.get("when_empty")
    if not _is_read_per_step(edge, node):
        if written is not None:
            help = ["only a loop that takes one element at each step goes on after the end of a stream"]
            report.add(codes.STREAM_ATTRIBUTE, written.key_span, "`when_empty` has no meaning here", help=help)
        return
    if written is None:
        report.add(
            codes.OUTLIVES,
            edge.spec.span,
            f"`{node.id}` may outlive `{edge.spec.source}`, and nothing says what it reads then",
            labels=[Label(span=node.span, text="may go on after the end of the stream")],
            help=[
                f"add `when_empty: {{hold: {' or '.join((*_rows(node), 'last'))}}}`",
                "without it nothing is added to the steps after the end",
            ],
        )
        return
    row = written.value.get("hold") if isinstance(written.value, dict) else written.value
    if row != "last" and row not in _rows(node):
        report.add(
            codes.HELD_ROW,
            written.span,
            f"`{node.id}` has no row `{row}` to hold",
            labels=[] if node.component is None else [Label(span=node.component.spec.use.span, text=_known_rows(node))],
            help=did_you_mean(str(row), (*_rows(node), "last"), "row"),
        )


def _is_read_per_step(edge: Edge, node: Node) -> bool:
    port = edge.target_port
    return port is not None and port.streams and node.loop is not None and node.loop.kind == "ar_decode"


def _rows(node: Node) -> tuple[str, ...]:
    return () if node.component is None else node.component.signature.rows


def _known_rows(node: Node) -> str:
    rows = _rows(node)
    return f"its rows: {', '.join(f'`{row}`' for row in rows)}" if rows else "it has no named rows"
