"""Checks the `~>` edges: what may stream into what, enough context, equal cuts, no deadlock, bounded channels."""

from __future__ import annotations

from collections import deque

from omniflow_compiler import codes
from omniflow_compiler.diagnostics import Label, Report
from omniflow_compiler.graph import Edge, Node, ProgramGraph
from omniflow_compiler.library.signature import Port

CUTS = ("chunk", "first_chunk", "left_context", "right_context")
STREAM_ATTRIBUTES = (*CUTS, "capacity", "start", "when_empty")


def check_streams(graph: ProgramGraph, report: Report) -> None:
    """Reports every faulty stream."""
    for edge in graph.edges:
        node = graph.nodes[edge.target_node]
        if not node.is_known or edge.target_port is None or not edge.spec.is_sound:
            continue
        if edge.spec.streams:
            _check_port(edge, edge.target_port, node, report)
            _check_context(edge, edge.target_port, node, graph, report)
        else:
            _check_no_attributes(edge, report)
    for node in graph.nodes.values():
        _check_cuts(node, graph, report)
        _check_deadlock(node, graph, report)


def _check_port(edge: Edge, port: Port, node: Node, report: Report) -> None:
    if port.streams or node.each:
        if node.each and not port.streams:
            for name in CUTS:
                written = edge.spec.attributes.get(name)
                if written is not None:
                    help = [f"`{edge.spec.target}` takes each item whole"]
                    report.add(codes.STREAM_ATTRIBUTE, written.key_span, f"`{name}` has no meaning here", help=help)
        return
    report.add(
        codes.STREAM_INTO_VALUE,
        edge.spec.span,
        f"`{edge.spec.target}` takes a finished value, not a stream",
        help=[f"write `{edge.spec.source} -> {edge.spec.target}`"],
    )


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


def _check_context(edge: Edge, port: Port, node: Node, graph: ProgramGraph, report: Report) -> None:
    is_cut = "chunk" in edge.spec.attributes or (edge.source_port is not None and edge.source_port.streams)
    if not is_cut or not (port.left or port.right):
        return
    given = {side: edge.attribute(f"{side}_context", 0) for side in ("left", "right")}
    needed = {"left": port.left, "right": port.right}
    lacking = [side for side in given if given[side] < needed[side]]
    if not lacking:
        return
    loss = max(needed[side] - given[side] for side in lacking)
    hop = node.component.signature.hop if node.component is not None else 0
    samples = f" ({loss * hop} samples)" if hop else ""
    report.add(
        codes.CONTEXT,
        edge.spec.target.span,
        f"at every border of a chunk {loss} elements{samples} are computed from too little context",
        note=", ".join(f"{side}_context is {given[side]}, {needed[side]} is needed" for side in lacking),
        labels=[Label(span=node.component.spec.span, text="this decoder")] if node.component is not None else [],
        help=[f"set {', '.join(f'`{side}_context: {needed[side]}`' for side in lacking)}"],
    )


def _check_cuts(node: Node, graph: ProgramGraph, report: Report) -> None:
    """The streams of one node advance together, so they are cut at the same places."""
    cut = [edge for edge in graph.incoming[node.id] if edge.spec.streams and "chunk" in edge.spec.attributes]
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
        for name in ("chunk", "first_chunk"):
            mine, its = first.attribute(name, 0), edge.attribute(name, 0)
            if mine != its:
                report.add(
                    codes.CHUNK_ALIGNMENT,
                    edge.spec.span,
                    f"`{edge.spec.target}` is cut into {its or 'pieces as produced'}, `{first.spec.target}` into {mine or 'pieces as produced'}",
                    labels=[Label(span=first.spec.span, text=f"`{name}` is {mine or 'not set'} here")],
                    help=[f"give both the same `{name}`"],
                )


def waits_for_end(edge: Edge, graph: ProgramGraph) -> bool:
    """Whether the edge's reader needs the whole of what the edge carries."""
    if not edge.spec.streams:
        return True
    node = graph.nodes[edge.target_node]
    return not node.is_known


def _check_deadlock(node: Node, graph: ProgramGraph, report: Report) -> None:
    """A reader that starts only after a finished value arrives must not share that value's origin with a bounded
    stream into it: the origin would stop at the full channel and never finish the value."""
    streams = [e for e in graph.incoming[node.id] if e.spec.streams and not e.is_back and e.source_node is not None]
    values = [e for e in graph.incoming[node.id] if not e.spec.streams and not e.is_back and e.source_node is not None]
    for stream in streams:
        capacity = stream.spec.attributes.get("capacity")
        if capacity is None or not values:
            continue
        assert stream.source_node is not None
        path = _barrier_path(stream.source_node, values, graph)
        if path is not None:
            report.add(
                codes.DEADLOCK,
                capacity.span,
                f"`{node.id}` starts only when `{path[-1].spec.source}` is finished, but `{stream.spec.source}` stops at {capacity.value} unread elements",
                labels=[Label(span=edge.spec.span, text="waits on this path") for edge in path][:6],
                help=["leave `capacity` out: the channel is then sized for the whole stream"],
            )


def _barrier_path(origin: str, values: list[Edge], graph: ProgramGraph) -> list[Edge] | None:
    """The path from the origin to one of the value edges, if there is one."""
    for last in values:
        assert last.source_node is not None
        after: dict[str, Edge] = {}
        queue, seen = deque([last.source_node]), {last.source_node}
        while queue:
            name = queue.popleft()
            if name == origin:
                path = []
                while name in after and name != last.source_node:
                    path.append(after[name])
                    name = after[name].target_node
                return [*path, last]
            for edge in graph.incoming[name]:
                if edge.source_node is not None and edge.source_node not in seen and not edge.is_back:
                    seen.add(edge.source_node)
                    after[edge.source_node] = edge
                    queue.append(edge.source_node)
    return None


def must_hold_all(edge: Edge, graph: ProgramGraph) -> bool:
    """Whether the edge's channel must be able to hold the whole stream, because its reader starts after its end."""
    values = [e for e in graph.incoming[edge.target_node] if not e.spec.streams and e.source_node is not None]
    return edge.source_node is not None and bool(values) and _barrier_path(edge.source_node, values, graph) is not None
