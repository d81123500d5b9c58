"""The program's edges as a network of channels in which nodes wait for each other."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction

from omniflow_compiler.graph import Edge, ProgramGraph
from omniflow_compiler.passes.types import Types
from omniflow_compiler.types import Axis, Type
from omniflow_compiler.waiting import Link, held_whole, least_capacities

ITEMS_OF = "items of "  # before the name of a node that gives whole items: what sends them on, and then their ends


@dataclass(frozen=True, slots=True, kw_only=True)
class Needs:
    """What channels without a written capacity must hold: everything (`held`), or at least some elements."""

    held: frozenset[int]
    least: Mapping[int, int]


def channel_needs(graph: ProgramGraph, types: Types) -> Needs:
    """For each channel, by the key of its edge, the room with which nothing gets stuck."""
    links = links_of(graph, types)
    by_key = {edge.key: edge for edge in graph.edges}
    least = {key: math.ceil(size * scale_of(by_key[key], types)) for key, size in least_capacities(links).items()}
    return Needs(held=held_whole(links), least=least)


def links_of(graph: ProgramGraph, types: Types) -> list[Link]:
    """A link for each edge between nodes; lags and capacities count elements of the axis that the channels share."""
    return list(_links(graph, types))


def _links(graph: ProgramGraph, types: Types) -> Iterator[Link]:
    for edge in graph.edges:
        if edge.source_node is None or (edge.is_back and not edge.spec.streams):
            continue
        source = graph.nodes[edge.source_node]
        is_piecewise = edge.source_port is None or edge.source_port.streams
        if not edge.spec.streams or not (is_piecewise or source.each) or not _reads_pieces(edge, graph):
            yield Link(key=edge.key, source=edge.source_node, target=edge.target_node, need="whole")
            continue
        by_items = takes_items(edge, graph)
        sends = edge.source_node if by_items or is_piecewise else f"{ITEMS_OF}{edge.source_node}"
        if sends != edge.source_node:
            yield Link(key=edge.key, source=edge.source_node, target=sends, need="item")
        written, scale = edge.attribute("capacity", 0), scale_of(edge, types)
        yield Link(
            key=edge.key,
            source=sends,
            target=edge.target_node,
            need="item" if by_items else "elements",
            lag=math.ceil((1 + (0 if by_items else lag_of(edge))) / scale) - 1,
            tokens=1 if edge.is_back else 0,
            capacity=max(1, math.ceil(written / scale)),
            counts_items=by_items,
            is_fixed=bool(written),
        )


def _reads_pieces(edge: Edge, graph: ProgramGraph) -> bool:
    """Whether the reader can begin before the stream has ended."""
    return edge.target_port is None or edge.target_port.streams or graph.nodes[edge.target_node].each


def takes_items(edge: Edge, graph: ProgramGraph) -> bool:
    """Whether the edge's reader takes whole items, which are then what its capacity counts."""
    port = edge.target_port
    if port is None or not edge.spec.streams:
        return False
    return port.items or (graph.nodes[edge.target_node].each and not port.streams)


def lag_of(edge: Edge) -> int:
    """Elements beyond the next one that must have come before the reader takes it.

    A window leaves once one element behind it is known, or the context on its right.
    """
    chunk = max(edge.attribute("chunk", 0), edge.attribute("first_chunk", 0))
    right = edge.attribute("right_context", 0)
    behind = edge.source_port.lags if edge.source_port is not None else 0
    return behind + (chunk - 1 + max(right, 1) if chunk else right)


def scale_of(edge: Edge, types: Types) -> Fraction:
    """Elements of the channel per element of the length it is counted in: 300 for samples of 300 a frame."""
    type = types.inputs.get((edge.target_node, edge.spec.target.port))
    axes = () if type is None else counted_axes(type)
    terms = axes[-1].size.terms if axes else ()
    return terms[0][1] if terms and terms[0][1] > 0 else Fraction(1)


def counted_axes(type: Type) -> tuple[Axis, ...]:
    """The axes along which a stream of this type comes: its items, and the elements of each."""
    return type.axes[: 2 if type.is_items else 1]
