"""Plans the run: order, lifetimes of finished values, channel capacities, expected units and seconds, memory peak."""

from __future__ import annotations

import heapq
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from fractions import Fraction

from omniflow_compiler.expressions import Expression, ExpressionError, Value
from omniflow_compiler.graph import Edge, Node, ProgramGraph
from omniflow_compiler.passes.streams import must_hold_all
from omniflow_compiler.passes.types import Types
from omniflow_compiler.schedule import Buffer, Holder, Memory, UnitTemplate
from omniflow_compiler.types import DTYPE_BYTES, Size, Type

DEFAULT_LENGTH = 512  # elements of an axis whose length nothing tells
DEFAULT_ITEMS = 16  # items of a stream of items
DEFAULT_CAPACITY = 256


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """Everything about the run that does not depend on a request."""

    order: tuple[str, ...]
    depths: Mapping[str, int]
    units: Mapping[str, tuple[UnitTemplate, ...]]
    capacities: Mapping[int, int]  # by edge
    buffers: tuple[Buffer, ...]
    memory: tuple[Memory, ...]
    critical_path: tuple[str, ...]
    critical_seconds: float


def plan_run(graph: ProgramGraph, types: Types, needed: set[str], budgets: Mapping[str, int]) -> Plan:
    """The plan for the needed nodes; `budgets` has bytes per device where a limit was given."""
    order = tuple(_topological(graph, needed))
    lengths = Lengths(graph)
    units = {name: _units(graph.nodes[name], lengths) for name in order}
    seconds = {name: sum(unit.expected * unit.seconds for unit in units[name]) for name in order}
    path, total = _critical_path(graph, order, seconds)
    capacities = {e.key: _capacity(e, graph, types, lengths) for e in _edges(graph, order) if e.spec.streams}
    buffers = tuple(_buffers(graph, types, order, lengths))
    return Plan(
        order=order,
        depths=_depths(graph, order),
        units=units,
        capacities=capacities,
        buffers=buffers,
        memory=tuple(_memory(graph, types, order, buffers, capacities, lengths, budgets)),
        critical_path=path,
        critical_seconds=total,
    )


def _topological(graph: ProgramGraph, needed: set[str]) -> Iterable[str]:
    """Kahn's algorithm with ties by id, so that the order of the file does not matter."""
    waiting = {n: sum(s in needed for s in {*graph.graph.predecessors(n)}) for n in needed}
    ready = sorted(name for name, count in waiting.items() if count == 0)
    heapq.heapify(ready)
    while ready:
        name = heapq.heappop(ready)
        yield name
        for target in set(graph.graph.successors(name)):
            if target in waiting:
                waiting[target] -= 1
                if waiting[target] == 0:
                    heapq.heappush(ready, target)


def _edges(graph: ProgramGraph, order: Iterable[str]) -> Iterable[Edge]:
    for name in order:
        yield from graph.incoming[name]


def _depths(graph: ProgramGraph, order: Iterable[str]) -> dict[str, int]:
    depths: dict[str, int] = {}
    for name in order:
        depths[name] = 1 + max((depths.get(before, -1) for before in graph.graph.predecessors(name)), default=-1)
    return depths


class Lengths:
    """Estimates of the lengths that a request decides; for loops the declared bound."""

    def __init__(self, graph: ProgramGraph) -> None:
        self.graph = graph
        self.known: dict[str, Fraction] = {}

    def of(self, symbol: str) -> Fraction:
        """Elements of the axis that the symbol counts."""
        if symbol not in self.known:
            self.known[symbol] = Fraction(self._estimate(symbol))
        return self.known[symbol]

    def _estimate(self, symbol: str) -> int:
        owner, _, axis = symbol.rpartition(".")
        node = self.graph.nodes.get(owner)
        if node is not None and node.loop is not None and axis == "T":
            bound = loop_bound(node, self.graph)
            if bound is not None:
                return bound
        return DEFAULT_ITEMS if axis in ("N", "W") else DEFAULT_LENGTH

    def elements(self, type: Type) -> int:
        """Elements of a value of the type, items included."""
        product = Fraction(1)
        for axis in type.axes:
            product *= max(Fraction(1), axis.size.evaluate(self.of))
        return math.ceil(product)

    def bytes(self, type: Type) -> int:
        """Bytes of a value of the type."""
        if type.base in ("text", "json", "record"):
            return 4 * DEFAULT_LENGTH * self.elements(type)
        return DTYPE_BYTES.get(type.dtype or "", 4) * self.elements(type)


def loop_bound(node: Node, graph: ProgramGraph) -> int | None:
    """Most tokens of an autoregressive loop; None when the loop has no such bound."""
    bound = node.attributes.get("max_tokens")
    if isinstance(bound, int):
        return bound
    if not isinstance(bound, str):
        return None
    names: dict[str, Value] = {}
    for other in graph.nodes.values():
        own = other.attributes.get("max_tokens")
        if other.loop_spec is not None and isinstance(own, int):
            names[f"{other.loop_spec.name.text}.tokens"] = own
            names[f"{other.id}.tokens"] = own
    try:
        value = Expression(bound).evaluate(names)
    except ExpressionError:
        return None
    return value if isinstance(value, int) else None


def _units(node: Node, lengths: Lengths) -> tuple[UnitTemplate, ...]:
    items = DEFAULT_ITEMS if node.each else 1
    if node.op is not None:
        return (UnitTemplate(kind="op", expected=items, seconds=node.op.seconds),)
    if node.loop is None or node.component is None:
        return ()
    costs = node.component.signature.unit_seconds
    return tuple(
        UnitTemplate(kind=kind, expected=items * _count(node, kind, lengths), seconds=costs.get(kind, 1e-3))
        for kind in node.loop.units
    )


def _count(node: Node, kind: str, lengths: Lengths) -> int:
    if kind == "ar_token":
        return loop_bound(node, lengths.graph) or DEFAULT_LENGTH
    if kind == "diffusion_step":
        steps = node.attributes.get("steps")
        return steps if isinstance(steps, int) else 1
    if kind == "audio_chunk":
        cuts = [e.attribute("chunk", 0) for e in lengths.graph.incoming[node.id]]
        return math.ceil(DEFAULT_LENGTH / max(cuts)) if any(cuts) else 1
    return 1


def _critical_path(
    graph: ProgramGraph, order: Iterable[str], seconds: Mapping[str, float]
) -> tuple[tuple[str, ...], float]:
    longest: dict[str, float] = {}
    before: dict[str, str] = {}
    for name in order:
        previous = [p for p in set(graph.graph.predecessors(name)) if p in longest]
        best = max(previous, key=lambda p: (longest[p], p), default=None)
        longest[name] = seconds[name] + (longest[best] if best is not None else 0.0)
        if best is not None:
            before[name] = best
    if not longest:
        return (), 0.0
    path = [max(longest, key=lambda name: (longest[name], name))]
    total = longest[path[0]]
    while path[-1] in before:
        path.append(before[path[-1]])
    return tuple(reversed(path)), total


def _capacity(edge: Edge, graph: ProgramGraph, types: Types, lengths: Lengths) -> int:
    written = edge.attribute("capacity", 0)
    if written:
        return written
    type = types.inputs.get((edge.target_node, edge.spec.target.port))
    axes = [] if type is None else [axis for axis in type.axes if not axis.items]
    if must_hold_all(edge, graph) and axes:
        return max(DEFAULT_CAPACITY, math.ceil(axes[0].size.evaluate(lengths.of)))
    window = edge.attribute("chunk", 0) + edge.attribute("left_context", 0) + edge.attribute("right_context", 0)
    return max(DEFAULT_CAPACITY, 2 * window)


def _buffers(graph: ProgramGraph, types: Types, order: tuple[str, ...], lengths: Lengths) -> Iterable[Buffer]:
    position = {name: i for i, name in enumerate(order)}
    last = len(order) - 1
    kept = {(output.ref.node, output.ref.port) for output in graph.program.outputs.values()}
    for name in order:
        uses: dict[str, int] = {}
        for edge in graph.outgoing[name]:
            if not edge.spec.streams and edge.target_node in position:
                port = edge.spec.source.port
                uses[port] = max(uses.get(port, 0), position[edge.target_node])
        for port in graph.nodes[name].outputs:
            if (name, port) in kept:
                uses[port] = last
        for port, use in sorted(uses.items()):
            type = types.outputs.get((name, port))
            if type is not None:
                yield Buffer(port=f"{name}.{port}", bytes=lengths.bytes(type), first_use=position[name], last_use=use)


def _memory(
    graph: ProgramGraph,
    types: Types,
    order: tuple[str, ...],
    buffers: tuple[Buffer, ...],
    capacities: Mapping[int, int],
    lengths: Lengths,
    budgets: Mapping[str, int],
) -> Iterable[Memory]:
    resident: dict[str, list[Holder]] = {}
    device_of: dict[str, str] = {}
    caches: dict[str, str] = {}
    for name in order:
        node = graph.nodes[name]
        if node.component is None:
            continue
        component = node.component
        device_of[name] = component.spec.device
        size = component.num_parameters * DTYPE_BYTES.get(component.spec.dtype, 4)
        holder = Holder(name=component.spec.name.text, kind="weights", bytes=size)
        if size and holder not in resident.setdefault(component.spec.device, []):
            resident[component.spec.device].append(holder)
        if node.loop_spec is not None and node.loop_spec.cache is not None:
            caches[node.loop_spec.cache.text] = component.spec.device
    for cache, device in sorted(caches.items()):
        if cache in graph.card.caches:
            size = graph.card.caches[cache].max_bytes
            resident.setdefault(device, []).append(Holder(name=cache, kind="cache", bytes=size))
    for edge in _edges(graph, order):
        type = types.inputs.get((edge.target_node, edge.spec.target.port))
        if edge.spec.streams and type is not None:
            axes = [axis for axis in type.axes if not axis.items][1:]
            row = lengths.bytes(Type(type.base, type.dtype, tuple(axes)))
            size = capacities[edge.key] * (row if type.axes else 4)
            device = device_of.get(edge.target_node, "cpu")
            channel = f"{edge.spec.source} ~> {edge.spec.target}"
            resident.setdefault(device, []).append(Holder(name=channel, kind="channel", bytes=size))
    for device in sorted({*resident, "cpu"}):
        yield _peak(device, order, resident.get(device, []), buffers, device_of, budgets.get(device))


def _peak(
    device: str,
    order: tuple[str, ...],
    resident: list[Holder],
    buffers: tuple[Buffer, ...],
    device_of: Mapping[str, str],
    budget: int | None,
) -> Memory:
    mine = [b for b in buffers if device_of.get(b.port.partition(".")[0], "cpu") == device]
    change = [0] * (len(order) + 1)
    for buffer in mine:
        change[buffer.first_use] += buffer.bytes
        change[buffer.last_use + 1] -= buffer.bytes
    live, most, at = 0, 0, 0
    for position, delta in enumerate(change[:-1]):
        live += delta
        if live > most:
            most, at = live, position
    holders = [*resident]
    holders += [Holder(name=b.port, kind="buffer", bytes=b.bytes) for b in mine if b.first_use <= at <= b.last_use]
    holders.sort(key=lambda h: (-h.bytes, h.kind, h.name))
    return Memory(
        device=device,
        peak_bytes=sum(h.bytes for h in resident) + most,
        budget_bytes=budget,
        at=at,
        holders=tuple(holders[:12]),
    )


def size_number(size: Size) -> int | None:
    """The number of a size without symbols."""
    return None if size.number is None else int(size.number)
