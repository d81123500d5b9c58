"""When each node could run: values are waited for, streams are followed, so nodes along a stream overlap.

Nothing but the graph holds a node back here: two nodes on one device are taken to run side by side. The end is
therefore the least a request can take; on one device the work of all nodes bounds it as well.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from omniflow_compiler.graph import Edge, Node, ProgramGraph
from omniflow_compiler.passes.lengths import Lengths
from omniflow_compiler.passes.units import Cost, leading_size


@dataclass(frozen=True, slots=True, kw_only=True)
class Timeline:
    """Seconds after the request's start at which nodes start and end, and the chain of nodes that decides the end."""

    starts: Mapping[str, float]
    ends: Mapping[str, float]
    critical_path: tuple[str, ...]
    seconds: float


def lay_out(graph: ProgramGraph, order: Sequence[str], costs: Mapping[str, Cost], lengths: Lengths) -> Timeline:
    """Starts and ends of all nodes, in one pass over their order."""
    starts: dict[str, float] = {}
    ends: dict[str, float] = {}
    because: dict[str, str] = {}
    for name in order:
        own = costs[name]
        start, start_by = 0.0, ""
        end, end_by = 0.0, ""
        for edge in graph.incoming[name]:
            source = edge.source_node
            if source is None or source not in ends:
                continue
            ready = _ready(edge, graph.nodes[source], starts[source], ends[source], costs[source], lengths)
            start, start_by = max((start, start_by), (ready, source))
            if edge.spec.streams:
                end, end_by = max((end, end_by), (ends[source] + own.last, source))
        starts[name] = start
        ends[name], by = max((start + own.total, start_by), (end, end_by))
        if by:
            because[name] = by
    return Timeline(
        starts=starts, ends=ends, critical_path=_chain(ends, because), seconds=max(ends.values(), default=0.0)
    )


def _ready(edge: Edge, node: Node, start: float, end: float, cost: Cost, lengths: Lengths) -> float:
    """When an edge's reader has what it needs to start."""
    port = edge.source_port
    if not edge.spec.streams or port is None or not (port.streams or node.each):
        return end
    first = min(start + cost.first, end)
    chunk = edge.attribute("first_chunk", edge.attribute("chunk", 1)) + edge.attribute("right_context", 0)
    total = leading_size(edge, lengths) * (lengths.items(node) if port.streams else 1)
    if chunk <= 1 or total <= 1 or not port.streams:
        return first
    return first + (end - first) * min(1.0, (chunk - 1) / (total - 1))


def _chain(ends: Mapping[str, float], because: Mapping[str, str]) -> tuple[str, ...]:
    if not ends:
        return ()
    path = [max(ends, key=lambda name: (ends[name], name))]
    while path[-1] in because:
        path.append(because[path[-1]])
    return tuple(reversed(path))
