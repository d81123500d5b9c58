"""Infers the type of every port along the edges and reports each edge whose ends cannot be made equal."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from fractions import Fraction

from omniflow_compiler import codes
from omniflow_compiler.diagnostics import Report
from omniflow_compiler.digraph import connected_parts
from omniflow_compiler.graph import Edge, Node, ProgramGraph
from omniflow_compiler.library.domains import domain_of
from omniflow_compiler.library.signature import Port
from omniflow_compiler.limits import Limits, limits_of
from omniflow_compiler.passes.mismatch import Reporter
from omniflow_compiler.passes.trace import Trace
from omniflow_compiler.sizes import Size
from omniflow_compiler.spec import InputSpec
from omniflow_compiler.types import (
    UNKNOWN,
    Axis,
    Rate,
    Type,
    TypeSyntaxError,
    is_unknown,
    parse_type,
)
from omniflow_compiler.unify import Cause, Frame, Mismatch, Unifier, frame_of, pattern_of


@dataclass(frozen=True, slots=True, kw_only=True)
class Types:
    """Types of ports by (node, port): `outputs` as produced, `inputs` as they arrive, `given` by program input."""

    outputs: Mapping[tuple[str, str], Type]
    inputs: Mapping[tuple[str, str], Type]
    given: Mapping[str, Type]


def infer_types(graph: ProgramGraph, report: Report) -> Types:
    """Types of all ports; those downstream of a fault are unknown and fit everything."""
    inference = _Inference(graph=graph, report=report)
    for name in _order(graph):
        inference.node(graph.nodes[name])
    for edge in graph.edges:
        if edge.is_back:
            inference.back_edge(edge)
    inference.late_faults()
    settled = inference.unifier.settled
    return Types(
        outputs={key: settled(type) for key, type in inference.outputs.items()},
        inputs={key: settled(type) for key, type in inference.inputs.items()},
        given={name: settled(type) for name, type in inference.given.items()},
    )


def _order(graph: ProgramGraph) -> Iterator[str]:
    """Topological order; the nodes of a cycle come in any order, their fault is reported elsewhere."""
    for part in connected_parts(graph.graph):
        yield from part


@dataclass(slots=True, kw_only=True)
class _Inference:
    graph: ProgramGraph
    report: Report
    unifier: Unifier = field(default_factory=Unifier)
    outputs: dict[tuple[str, str], Type] = field(default_factory=dict)
    inputs: dict[tuple[str, str], Type] = field(default_factory=dict)
    given: dict[str, Type] = field(default_factory=dict)
    frames: dict[str, Frame] = field(default_factory=dict)
    item_edges: dict[str, Edge] = field(default_factory=dict)
    itemless: set[str] = field(default_factory=set)  # nodes that take one item and were said to be brought many
    common: dict[tuple[str, str], Type] = field(default_factory=dict)  # ports with several producers
    joined: dict[tuple[Size, ...], Size] = field(default_factory=dict)  # sizes of values that stand for each other
    reporter: Reporter = field(init=False)

    def __post_init__(self) -> None:
        self.given = {name: _open(type, f"inputs.{name}") for name, type in self.graph.inputs.items()}
        trace = Trace(graph=self.graph, unifier=self.unifier, frames=self.frames, item_edges=self.item_edges)
        self.reporter = Reporter(graph=self.graph, report=self.report, trace=trace)

    def node(self, node: Node) -> None:
        frame = self.frames[node.id] = frame_of(node)
        self._join_alternatives(node)
        is_sound = node.is_known
        for edge in self.graph.incoming[node.id]:
            if not edge.is_back:
                is_sound &= self._arrive(edge, node, frame)
        items = self._item_size(node)
        if node.each and is_sound and items is None and not self._may_lack_edges():
            self.reporter.nothing_to_run_for(node)
            is_sound = False
        fed = {edge.spec.target.port for edge in self.graph.incoming[node.id]}
        for port in node.outputs.values():
            type = self._output(node, port, frame, fed) if is_sound else UNKNOWN
            if node.each and items is not None and not is_unknown(type):
                type = type.of_items(items)
            self.outputs[node.id, port.name] = type

    def _may_lack_edges(self) -> bool:
        """Whether an edge that is not there was reported."""
        return self.report.has_unresolved_names or self.report.has(codes.MISSING_INPUT)

    def _arrive(self, edge: Edge, node: Node, frame: Frame) -> bool:
        """Whether what comes over the edge fits its port."""
        actual = self._arriving(edge)
        key = (node.id, edge.spec.target.port)
        if not node.is_known or edge.target_port is None or is_unknown(actual):
            self.inputs.setdefault(key, actual)
            return False
        actual = self._in_common(actual, self.common.get(key))
        self.inputs[key] = actual
        if not self._keeps_contracts(edge, actual):
            return False
        if node.each and edge.spec.streams:
            if not self._aligns_items(edge, node, actual):
                return False
            actual = actual.item()
        return self._fits(edge, node, edge.target_port, actual, frame)

    def _arriving(self, edge: Edge) -> Type:
        """The type at the reader's end: the elements that `start` drops are gone."""
        actual = self.source_type(edge)
        start = edge.attribute("start", 0)
        position = 1 if actual.is_items else 0
        if not start or len(actual.axes) <= position:
            return actual
        axes = list(actual.axes)
        axes[position] = replace(axes[position], size=axes[position].size - Size.of(start))
        return replace(actual, axes=tuple(axes))

    def source_type(self, edge: Edge) -> Type:
        if edge.source_node is None:
            return self.given[edge.spec.source.port]
        return self.outputs.get((edge.source_node, edge.spec.source.port), UNKNOWN)

    def _join_alternatives(self, node: Node) -> None:
        """Ports that one of several producers feeds: where the lengths of these differ, the port has its own."""
        first: dict[str, Type] = {}
        for edge in self.graph.incoming[node.id]:
            port, actual = edge.target_port, self._arriving(edge)
            if port is None or port.variadic or edge.is_back or is_unknown(actual):
                continue
            if port.name not in first:
                first[port.name] = actual
            elif len(first[port.name].axes) == len(actual.axes):
                pairs = zip(first[port.name].axes, actual.axes, strict=True)
                axes = tuple(self._common_axis(a, b, f"{node.id}.{port.name}") for a, b in pairs)
                self.common[node.id, port.name] = first[port.name] = replace(actual, axes=axes)

    def _common_axis(self, first: Axis, second: Axis, owner: str) -> Axis:
        sizes = (self.unifier.equations.resolve(first.size), self.unifier.equations.resolve(second.size))
        if sizes[0] == sizes[1] or any(not size.terms for size in sizes) or first.items != second.items:
            return second
        if sizes not in self.joined:
            symbol = f"{owner}.{second.name}"
            self.unifier.equations.lengths.add(symbol)
            self.joined[sizes] = Size.of(symbol)
        return replace(second, size=self.joined[sizes])

    def _in_common(self, actual: Type, common: Type | None) -> Type:
        """What arrives, with the lengths that all producers of the port have in common."""
        if common is None or len(common.axes) != len(actual.axes):
            return actual
        pairs = zip(actual.axes, common.axes, strict=True)
        axes = tuple(mine if not mine.size.terms or not other.size.terms else other for mine, other in pairs)
        return replace(actual, axes=axes)

    def _keeps_contracts(self, edge: Edge, actual: Type) -> bool:
        """Whether what arrives fits the declared inputs of the graphs and stages that the edge passes through."""
        node = self.graph.nodes[edge.target_node]
        for position, contract in enumerate(edge.spec.contracts):
            declared = contract.type
            if not declared.text:
                continue  # the schema has said that it is missing
            try:
                pattern = parse_type(declared.text)
            except TypeSyntaxError as error:
                self.report.add(codes.BAD_TYPE, declared.span, f"`{declared.text[:80]}` is no type: {error}")
                return False
            frame = Frame(node=node, owner=f"{node.id}.{edge.key}.{position}", names={}, rates={})
            mismatches = self.unifier.match(pattern, actual, frame, edge)
            for mismatch in mismatches:
                self.reporter.contract(edge, declared, mismatch, actual)
            if mismatches or not self._keeps_limits(edge, contract, limits_of(contract, pattern), actual):
                return False
        return True

    def _keeps_limits(self, edge: Edge, contract: InputSpec, limits: Limits, actual: Type) -> bool:
        """Whether lengths that are known now are not above what the input of a graph or stage lets in."""
        for axis, most in zip(actual.axes, limits, strict=False):
            count = self.unifier.equations.resolve(axis.size).number
            if count is not None and 0 < most < count:
                self.reporter.over(edge, contract, axis, int(count), most)
                return False
        return True

    def _aligns_items(self, edge: Edge, node: Node, actual: Type) -> bool:
        """Whether the stream has items, as many as the other streams of its `each` node."""
        if not actual.is_items:
            self.reporter.no_items(edge, node, actual)
            return False
        first = self.item_edges.setdefault(node.id, edge)
        if first is edge:
            return True
        mine, others = actual.axes[0].size, self.source_type(first).axes[0].size
        kind = self.unifier.equations.equate(others, mine, Cause(edge, 0))
        if kind:
            resolve = self.unifier.equations.resolve
            self.reporter.items(edge, first, str(resolve(others)), str(resolve(mine)))
        return not kind

    def _item_size(self, node: Node) -> Size | None:
        edge = self.item_edges.get(node.id)
        return None if edge is None else self.source_type(edge).axes[0].size

    def _fits(self, edge: Edge, node: Node, port: Port, actual: Type, frame: Frame) -> bool:
        suffix = f"#{edge.key}" if port.variadic else ""
        mismatches = self.unifier.match(pattern_of(port, node), actual, frame, edge, suffix)
        for mismatch in mismatches:
            if mismatch.kind != "items" or node.id not in self.itemless:  # one `each: true` mends all its edges
                self.reporter.edge(edge, mismatch, actual)
            if mismatch.kind == "items":
                self.itemless.add(node.id)
        return not mismatches

    def _output(self, node: Node, port: Port, frame: Frame, fed: set[str]) -> Type:
        type = self.unifier.instantiate(pattern_of(port, node), frame, port.name)
        if self.unifier.has_odd_sizes(type):
            self.reporter.odd_size(node, port, type)
            return UNKNOWN
        name = node.op.name if node.op is not None else node.loop.kind if node.loop is not None else ""
        return domain_of(type, name, port.name, node.attributes, fed)

    def back_edge(self, edge: Edge) -> None:
        actual = self.source_type(edge)
        node = self.graph.nodes[edge.target_node]
        if edge.target_port is None or not node.is_known:
            return
        written = edge.spec.attributes["back_edge"]
        value = written.value if isinstance(written.value, dict) else {}
        if "initial" in value:
            self.reporter.initial(edge, node, value["initial"], written.span)
        if not is_unknown(actual):
            self._fits(edge, node, edge.target_port, actual, self.frames[node.id])

    def late_faults(self) -> None:
        """What only shows once everything is known."""
        for symbol, value, cause in self.unifier.equations.broken():
            self.reporter.edge(cause.edge, Mismatch("fraction", symbol, str(value), cause.axis), None)
        for edge, mismatch in self.unifier.late_bounds():
            self.reporter.edge(edge, mismatch, self.source_type(edge))


def _open(type: Type, owner: str) -> Type:
    """A program input's type: its symbols are sizes that its readers may settle, its rate too."""
    axes = []
    for axis in type.axes:
        names = {symbol: Size.of(f"{owner}.{symbol}") for symbol in axis.size.symbols}
        axes.append(replace(axis, size=axis.size.substitute(names)))
    rate = type.rate if type.rate is not None else Rate(Fraction(1), owner) if axes else None
    return replace(type, axes=tuple(axes), rate=rate)
