"""Infers the type of every port along the edges and reports each edge whose ends cannot be made equal."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from omniflow_compiler import codes
from omniflow_compiler.diagnostics import Label, Report
from omniflow_compiler.digraph import connected_parts
from omniflow_compiler.graph import Edge, Node, ProgramGraph
from omniflow_compiler.library.signature import Port
from omniflow_compiler.types import (
    UNKNOWN,
    Bindings,
    Mismatch,
    Size,
    Type,
    TypeSyntaxError,
    instantiate,
    is_unknown,
    match,
    parse_type,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Types:
    """Types of ports by (node, port): `outputs` as produced, `inputs` as they arrive."""

    outputs: Mapping[tuple[str, str], Type]
    inputs: Mapping[tuple[str, str], Type]


def infer_types(graph: ProgramGraph, report: Report) -> Types:
    """Types of all ports; those downstream of a fault are unknown and fit everything."""
    inference = _Inference(graph, report)
    order = list(_order(graph))
    for name in order:
        inference.node(graph.nodes[name])
    for edge in graph.edges:
        if edge.is_back:
            inference.back_edge(edge)
    return Types(outputs=inference.outputs, inputs=inference.inputs)


def _order(graph: ProgramGraph) -> Iterator[str]:
    """Topological order; the nodes of a cycle come in any order, their fault is reported elsewhere."""
    for part in connected_parts(graph.graph):
        yield from part


class _Inference:
    def __init__(self, graph: ProgramGraph, report: Report) -> None:
        self.graph = graph
        self.report = report
        self.solved: dict[str, Size] = {}
        self.outputs: dict[tuple[str, str], Type] = {}
        self.inputs: dict[tuple[str, str], Type] = {}
        self.bindings: dict[str, Bindings] = {}

    def node(self, node: Node) -> None:
        bindings = self.bindings[node.id] = self._bindings(node)
        items: Size | None = None
        is_sound = node.is_known
        for edge in self.graph.incoming[node.id]:
            if edge.is_back:
                continue
            actual = self.source_type(edge)
            self.inputs[node.id, edge.spec.target.port] = actual
            if not node.is_known or edge.target_port is None or is_unknown(actual):
                is_sound = False
                continue
            if not self._keeps_contracts(edge, node, actual):
                is_sound = False
                continue
            if node.each and edge.spec.streams:
                items, fits = self._items(edge, node, actual, items)
                if not fits:
                    is_sound = False
                    continue
                actual = actual.item()
            is_sound &= self._match(edge, node, edge.target_port, actual, bindings)
        for port in node.outputs.values():
            self.outputs[node.id, port.name] = self._output(node, port, bindings, items) if is_sound else UNKNOWN

    def _keeps_contracts(self, edge: Edge, node: Node, actual: Type) -> bool:
        """Whether what arrives fits the declared inputs of the graphs and stages that the edge passes through."""
        for declared in edge.spec.contracts:
            try:
                pattern = parse_type(declared.text)
            except TypeSyntaxError as error:
                self.report.add(codes.BAD_TYPE, declared.span, f"`{declared.text[:80]}` is no type: {error}")
                return False
            mismatches = match(pattern, actual, Bindings.fresh(self.solved))
            for mismatch in mismatches:
                code, message, help = _describe(edge, node, mismatch)
                labels = [Label(span=declared.span, text=f"takes {declared.text}")]
                self.report.add(code, edge.spec.source.span, message, note=str(actual), labels=labels, help=help)
            if mismatches:
                return False
        return True

    def back_edge(self, edge: Edge) -> None:
        actual = self.source_type(edge)
        node = self.graph.nodes[edge.target_node]
        if edge.target_port is not None and node.is_known and not is_unknown(actual):
            self._match(edge, node, edge.target_port, actual, self.bindings[node.id])

    def source_type(self, edge: Edge) -> Type:
        if edge.source_node is None:
            return _rigid(self.graph.inputs[edge.spec.source.port], f"inputs.{edge.spec.source.port}")
        return self.outputs.get((edge.source_node, edge.spec.source.port), UNKNOWN)

    def _bindings(self, node: Node) -> Bindings:
        bindings = Bindings.fresh(self.solved)
        for name, value in node.attributes.items():
            if isinstance(value, int) and not isinstance(value, bool) and value >= 0:
                bindings.sizes[name] = Size.of(value)
        if node.component is not None:
            owner = node.component.spec.name.text
            for name in node.component.signature.sizes:
                known = node.component.sizes.get(name)
                bindings.sizes[name] = Size.of(f"?{owner}.{name}" if known is None else known)
        return bindings

    def _items(self, edge: Edge, node: Node, actual: Type, items: Size | None) -> tuple[Size | None, bool]:
        """The size of the item axis that all streams of an `each` node share."""
        if not actual.is_items:
            self.report.add(
                codes.ITEMS,
                edge.spec.source.span,
                f"node `{node.id}` runs for each item, `{edge.spec.source}` is a stream of one item",
                note=str(actual),
                help=["carry it with `->` to share it by all items, or remove `each: true`"],
            )
            return items, False
        size = actual.axes[0].size
        if items is not None and items != size:
            mismatch = Mismatch("alignment", str(items), str(size), "items")
            self._report(edge, node, actual, mismatch)
            return items, False
        return size, True

    def _match(self, edge: Edge, node: Node, port: Port, actual: Type, bindings: Bindings) -> bool:
        pattern = _with_dtype(port.pattern, node)
        if port.variadic:
            before = dict(bindings.sizes)
            mismatches = match(pattern, actual, bindings)
            leading = {symbol for symbol, _ in pattern.axes[0].size.terms} if pattern.axes else set()
            bindings.sizes = {k: v for k, v in bindings.sizes.items() if k in before or k not in leading}
        else:
            mismatches = match(pattern, actual, bindings)
        for mismatch in mismatches:
            self._report(edge, node, actual, mismatch)
        return not mismatches

    def _output(self, node: Node, port: Port, bindings: Bindings, items: Size | None) -> Type:
        type = instantiate(_with_dtype(port.pattern, node), bindings, node.id)
        return type.of_items(items) if node.each and items is not None and not is_unknown(type) else type

    def _report(self, edge: Edge, node: Node, actual: Type, mismatch: Mismatch) -> None:
        code, message, help = _describe(edge, node, mismatch)
        expected = edge.target_port.type if edge.target_port is not None else ""
        labels = [Label(span=edge.spec.target.span, text=f"takes {expected}")]
        if node.component is not None and mismatch.kind in ("size", "vocabulary", "dtype"):
            labels.append(Label(span=node.component.spec.span, text=f"{mismatch.expected} is required here"))
        self.report.add(code, edge.spec.source.span, message, note=str(actual), labels=labels, help=help)


def _describe(edge: Edge, node: Node, mismatch: Mismatch) -> tuple[codes.Code, str, list[str]]:
    source, target = f"`{edge.spec.source}`", f"`{edge.spec.target}`"
    expected, found, axis = mismatch.expected, mismatch.found, mismatch.axis
    match mismatch.kind:
        case "dtype":
            help = ["set the `dtype` of one of the two components"]
            return codes.DTYPE_MISMATCH, f"{source} gives {found}, {target} takes {expected}", help
        case "size":
            named = f"axis {axis} of " if axis and not axis.isdigit() else ""
            return codes.AXIS_SIZE, f"{named}{source} has size {found}, {target} takes {expected}", []
        case "alignment":
            help = ["values that are combined element by element must come from the same loop or stream"]
            return codes.AXIS_ALIGNMENT, f"{source} is aligned to {found}, {target} needs {expected}", help
        case "axes":
            return codes.AXIS_COUNT, f"{source} is {found}, {target} takes {expected}", []
        case "vocabulary":
            help = ["leave the extra ids out with `strip`, or replace them with `clamp`"]
            return codes.VOCABULARY, f"{source} has ids up to {int(found) - 1}, {target} knows {expected} ids", help
        case "rate":
            return codes.RATE_MISMATCH, f"{source} runs at {found}, {target} at {expected}", []
        case "items" if expected == "one item":
            help = [f"give node `{node.id}` `each: true`, or put a `join` before it"]
            return codes.ITEMS, f"{source} is a stream of items, {target} takes one", help
        case "items":
            return codes.ITEMS, f"{source} is one item, {target} takes a stream of items", ["cut it with `segment`"]
    return codes.BASE_MISMATCH, f"{source} is {found}, {target} takes {expected}", []


def _with_dtype(pattern: Type, node: Node) -> Type:
    if pattern.dtype == "act" and node.component is not None:
        return replace(pattern, dtype=node.component.spec.dtype)
    return pattern


def _rigid(type: Type, owner: str) -> Type:
    """A program input's type: its symbols are lengths that the request decides."""
    axes = []
    for axis in type.axes:
        names = {symbol: Size.of(f"{owner}.{symbol}") for symbol, _ in axis.size.terms}
        axes.append(replace(axis, size=axis.size.substitute(names)))
    return replace(type, axes=tuple(axes))
