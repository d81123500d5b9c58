"""The work units a node is expected to issue and what they cost, from the cost models of its op or expert."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import NamedTuple

from omniflow_compiler.codebooks import lag_of, sequences_of
from omniflow_compiler.graph import Component, Edge, Node, ProgramGraph
from omniflow_compiler.library.signature import LoopSignature
from omniflow_compiler.passes.lengths import DEFAULT_LENGTH, Lengths
from omniflow_compiler.schedule import UnitTemplate

SCORED = 128  # positions in one unit of `score` at most
DEFAULT_SECONDS = 1e-3  # of a unit whose expert has no cost model


class Cost(NamedTuple):
    """Seconds of all units of a node, of the first ones until something can leave, and of the last one."""

    total: float
    first: float
    last: float


def expected_units(
    node: Node, graph: ProgramGraph, lengths: Lengths, bounds: Mapping[str, int]
) -> tuple[UnitTemplate, ...]:
    """The units of one request, those of an inner loop behind the outer's."""
    items = lengths.items(node)
    if node.op is not None:
        return (UnitTemplate(kind="op", expected=items, seconds=node.op.seconds),)
    if node.loop is None or node.component is None:
        return ()
    counts = {kind: items * _count(kind, node, graph, lengths, bounds) for kind in node.loop.units}
    units = _templates(node.loop, node.component, counts, rows=rows_of(node.attributes))
    if node.inner is not None:
        rounds = counts.get("ar_token", items)
        inner = {kind: rounds * (node.inner.length if kind == "ar_token" else 1) for kind in node.inner.loop.units}
        units += _templates(node.inner.loop, node.inner.component, inner, expert=node.inner.component.spec.name.text)
    return tuple(units)


def _templates(
    loop: LoopSignature, component: Component, counts: Mapping[str, int], *, rows: int = 1, expert: str | None = None
) -> list[UnitTemplate]:
    """rows: of one unit; seconds that an author declares are of one, those that were measured of a whole unit."""
    seconds = component.signature.unit_seconds
    return [
        UnitTemplate(
            kind=kind,
            expected=counts[kind],
            seconds=seconds.get(kind, DEFAULT_SECONDS) * (1 if kind in component.measured else rows),
            expert=expert,
        )
        for kind in loop.units
    ]


def rows_of(attributes: Mapping[str, object]) -> int:
    """Rows in one unit of a loop: guidance adds one, what it steers away from."""
    return 2 if sequences_of(attributes) > 1 or attributes.get("guidance") else 1


def _count(kind: str, node: Node, graph: ProgramGraph, lengths: Lengths, bounds: Mapping[str, int]) -> int:
    """Units of that kind for one item."""
    if kind == "ar_token":
        return bounds.get(node.id, DEFAULT_LENGTH) + lag_of(node.attributes)
    if kind == "logprob_batch":
        positions = sum(leading_size(edge, lengths) for edge in graph.incoming[node.id])
        return max(math.ceil(positions / SCORED), 1)
    if kind == "diffusion_step":
        steps = node.attributes.get("steps")
        return steps if isinstance(steps, int) else 1
    if kind == "chunk_step":  # and a look at each chunk but the last when it is done
        steps = node.attributes.get("steps")
        return bounds.get(node.id, DEFAULT_LENGTH) * ((steps if isinstance(steps, int) else 1) + 1)
    if kind == "audio_chunk":
        return max((_chunks(edge, lengths) for edge in graph.incoming[node.id]), default=1)
    return 1


def _chunks(edge: Edge, lengths: Lengths) -> int:
    """Into how many windows an edge cuts one item."""
    chunk, axis = edge.attribute("chunk", 0), leading_size(edge, lengths)
    return math.ceil(axis / chunk) if chunk and axis else 1


def leading_size(edge: Edge, lengths: Lengths) -> int:
    """Elements of one item that an edge carries; zero for a type without axes."""
    type = lengths.types.inputs.get((edge.target_node, edge.spec.target.port))
    axes = [] if type is None else [axis for axis in type.axes if not axis.items]
    return math.ceil(axes[0].size.evaluate(lengths.of)) if axes else 0


def cost(node: Node, units: tuple[UnitTemplate, ...], lengths: Lengths) -> Cost:
    """What a node's units cost together, and at its two ends."""
    total = sum(unit.expected * unit.seconds for unit in units)
    items = lengths.items(node)
    if any(port.streams for port in node.outputs.values()):
        first = sum(unit.seconds for unit in units)
        return Cost(total, min(first, total), units[-1].seconds if units else 0.0)
    return Cost(total, total / items, total / items)
