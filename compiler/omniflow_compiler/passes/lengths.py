"""Lengths that a request decides: bounds where a loop declares one, assumptions where nothing tells."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from fractions import Fraction

from omniflow_compiler.graph import Edge, Node, ProgramGraph
from omniflow_compiler.library.signature import Port
from omniflow_compiler.limits import limits_of_inputs, ranges_of_inputs
from omniflow_compiler.passes.caps import cap_of, number, sizing
from omniflow_compiler.passes.types import Types
from omniflow_compiler.types import ANY, DTYPE_BYTES, Axis, Size, Type

DEFAULT_LENGTH = 512  # elements of an axis whose length nothing tells
DEFAULT_ITEMS = 16  # items of a stream of items


@dataclass(frozen=True, slots=True)
class Length:
    """Elements of an axis; `is_bound` says that no request can have more."""

    elements: Fraction
    is_bound: bool


@dataclass(slots=True)
class Lengths:
    """The length of every symbol of the needed nodes' types."""

    types: Types
    known: dict[str, Length] = field(default_factory=dict)

    def of(self, symbol: str) -> Fraction:
        """Elements of the axis that the symbol counts."""
        found = self.known.get(symbol)
        return Fraction(DEFAULT_LENGTH) if found is None else found.elements

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

    def is_bound(self, size: Size) -> bool:
        """Whether no request can have more than `size` evaluates to."""
        return all(symbol in self.known and self.known[symbol].is_bound for symbol, _ in size.terms)

    def items(self, node: Node) -> int:
        """How often a node with `each` runs; 1 for any other."""
        if not node.each:
            return 1
        counts = [
            axes[0].size.evaluate(self.of)
            for port in node.outputs
            if (axes := self.types.outputs[node.id, port].axes) and axes[0].items
        ]
        return max(1, math.ceil(max(counts, default=DEFAULT_ITEMS)))


def measure(graph: ProgramGraph, types: Types, order: Iterable[str], bounds: Mapping[str, int]) -> Lengths:
    """Lengths of all symbols that the nodes introduce; `bounds` has the most tokens of loops that declare it."""
    lengths = Lengths(types)
    lengths.known.update(_limited(graph, types))
    lengths.known.update(_numbers(graph, order))
    for name in order:
        node = graph.nodes[name]
        for symbol, port, axis in _introduced(node, types):
            lengths.known[symbol] = _length(node, port, axis, symbol, graph, lengths, bounds)
    return lengths


def _limited(graph: ProgramGraph, types: Types) -> Iterator[tuple[str, Length]]:
    """Lengths of inputs: those that the author limits, and as many items as usual where they do not."""
    for name, limits in limits_of_inputs(graph).items():
        axes = types.given[name].axes
        for axis, most in zip(axes, limits or [0] * len(axes), strict=False):
            symbol = axis.size.symbol
            if symbol is None:
                continue
            if most:
                yield symbol, Length(Fraction(most), True)
            elif axis.items:
                yield symbol, Length(Fraction(DEFAULT_ITEMS), False)


def _numbers(graph: ProgramGraph, order: Iterable[str]) -> Iterator[tuple[str, Length]]:
    """Numbers that decide a length: the most that the author allows, or what comes when a request brings none."""
    found = {edge.spec.source.port for node in order for edge in sizing(graph.nodes[node], graph)}
    ranges = ranges_of_inputs(graph) if found else {}
    for name in found:
        most, default = ranges[name].most, graph.program.inputs[name].default
        assumed = default if isinstance(default, int | float) else DEFAULT_LENGTH
        yield number(name), Length(Fraction(assumed if most is None else most), most is not None)


def _introduced(node: Node, types: Types) -> Iterator[tuple[str, Port, Axis]]:
    """The symbols that belong to a node, with the port and the axis that show them."""
    seen = set()
    for port in node.outputs.values():
        for axis in types.outputs[node.id, port.name].axes:
            for symbol, _ in axis.size.terms:
                if symbol.startswith(f"{node.id}.") and symbol not in seen:
                    seen.add(symbol)
                    yield symbol, port, axis


def _length(
    node: Node, port: Port, axis: Axis, symbol: str, graph: ProgramGraph, lengths: Lengths, bounds: Mapping[str, int]
) -> Length:
    if node.id in bounds and symbol == f"{node.id}.T":
        return Length(Fraction(bounds[node.id]), True)
    cap = cap_of(node, symbol, graph, lengths.types)
    if cap is not None:
        return Length(Fraction(math.ceil(cap.evaluate(lengths.of))), lengths.is_bound(cap))
    hop = 0 if node.component is None or axis.items else node.component.signature.hop
    if node.op is not None:
        made_of = {entry.name for entry in node.inputs.values() if _alike(entry, port)}
    else:
        made_of = {entry.name for entry in node.inputs.values() if entry.streams} if hop else set()
    entering = [edge for edge in graph.incoming[node.id] if edge.spec.target.port in made_of and not edge.is_back]
    by_item = node.each and not axis.items
    arriving = [(edge, _leading(edge, graph, lengths, items=axis.items, by_item=by_item)) for edge in entering]
    if node.op is not None and node.op.overlaps:
        arriving = [(edge, _cut(edge, length, items=axis.items)) for edge, length in arriving]
    known = [length for _, length in arriving if length is not None]
    if known:
        total = sum((length.elements for length in known), Fraction(0))
        if node.op is None:  # a decoder's streams advance together, `hop` elements for each of theirs
            total = hop * max(length.elements for length in known)
        return Length(total, all(length.is_bound for length in known))
    return Length(Fraction(DEFAULT_ITEMS if axis.items else DEFAULT_LENGTH), False)


def _alike(entry: Port, port: Port) -> bool:
    """Whether an op's output is made of that input's elements: both are of the same variable base."""
    base = port.pattern.base
    return base.startswith(ANY) and entry.pattern.base == base


def _cut(edge: Edge, length: Length | None, *, items: bool) -> Length | None:
    """How many windows the edge cuts so many elements into, or how long the longest is with its context."""
    chunk, first = edge.attribute("chunk", 0), edge.attribute("first_chunk", 0)
    if length is None or not chunk:
        return length
    if items:
        count = (
            1 + math.ceil(max(length.elements - first, Fraction(0)) / chunk)
            if first
            else math.ceil(length.elements / chunk)
        )
        return Length(Fraction(max(count, 1)), length.is_bound)
    longest = max(chunk, first) + edge.attribute("left_context", 0) + edge.attribute("right_context", 0)
    return Length(min(length.elements, Fraction(longest)), length.is_bound)


def _leading(edge: Edge, graph: ProgramGraph, lengths: Lengths, *, items: bool, by_item: bool) -> Length | None:
    """How many items an edge brings, or how many elements: over all items, or of one."""
    if edge.source_node is None:
        type = graph.inputs[edge.spec.source.port]
    else:
        type = lengths.types.outputs[edge.source_node, edge.spec.source.port]
    first = 1 if by_item and type.is_items else 0
    sizes = [axis.size for axis in type.axes[first : 1 if items or not type.is_items else 2]]
    if not sizes:
        return None
    product = Fraction(1)
    for size in sizes:
        product *= max(Fraction(1), size.evaluate(lengths.of))
    return Length(product, all(lengths.is_bound(size) for size in sizes))
