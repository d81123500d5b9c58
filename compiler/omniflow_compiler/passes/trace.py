"""Follows a size, rate, dtype or vocabulary back over the edges to the place that first decided it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, NamedTuple

from omniflow_compiler.diagnostics import Label
from omniflow_compiler.graph import Component, Edge, Node, ProgramGraph
from omniflow_compiler.library.signature import FromConfig, Port
from omniflow_compiler.source import Span
from omniflow_compiler.types import ANY, Type, show_dtype
from omniflow_compiler.unify import Cause, Frame, Unifier

MAX_HOPS = 3  # edges shown between the origin and the place of the fault
Aspect = Literal["size", "rate", "dtype", "vocabulary", "base"]


class Hop(NamedTuple):
    """What is asked for came over this edge; `axis` is the axis of the source port's type."""

    edge: Edge
    axis: int


class Origin(NamedTuple):
    """Where it was decided; what was open there was settled by the reader that `settled` names."""

    span: Span
    text: str
    settled: Cause | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Trace:
    """What inference knows about where things came from."""

    graph: ProgramGraph
    unifier: Unifier
    frames: Mapping[str, Frame]
    item_edges: Mapping[str, Edge]  # of `each` nodes: the stream that first gave the item axis

    def of_edge(self, edge: Edge, aspect: Aspect, axis: int) -> list[Label]:
        """From the origin of what arrives over the edge to the edge itself; `axis` counts the source port's axes."""
        hops: list[Edge] = []
        step: Hop | Origin = Hop(edge, axis)
        seen = set()
        while isinstance(step, Hop) and step.edge.key not in seen:
            seen.add(step.edge.key)
            if step.edge is not edge:
                hops.append(step.edge)
            step = self._source(step.edge, aspect, step.axis)
        labels = self._origin(step, aspect, edge) if isinstance(step, Origin) else []
        return labels + _shown(hops[::-1])

    def _origin(self, origin: Origin, aspect: Aspect, edge: Edge) -> list[Label]:
        """The place, and the reader that settled what the place leaves open."""
        labels = [Label(span=origin.span, text=origin.text)]
        cause = origin.settled
        if cause is None or cause.edge is edge or cause.edge.target_port is None:
            return labels
        labels.append(Label(span=cause.edge.spec.target.span, text="settled by this reader"))
        node = self.graph.nodes[cause.edge.target_node]
        step = self._step(node, cause.edge.target_port, aspect, cause.axis)
        return labels + ([Label(span=step.span, text=step.text)] if isinstance(step, Origin) else [])

    def of_port(self, node: Node, port: Port, aspect: Aspect, axis: int) -> list[Label]:
        """Where the expectation of an input port comes from; `axis` counts the axes of its pattern."""
        step = self._step(node, port, aspect, axis)
        if isinstance(step, Origin):
            return [Label(span=step.span, text=step.text)]
        through = Label(span=step.edge.spec.source.span, text=f"settled by `{step.edge.spec.source}`")
        return [*self.of_edge(step.edge, aspect, step.axis), through]

    def _source(self, edge: Edge, aspect: Aspect, axis: int) -> Hop | Origin:
        if edge.source_node is None:
            return self._given(edge.spec.source.port, aspect, axis)
        node = self.graph.nodes[edge.source_node]
        assert edge.source_port is not None
        if node.each and aspect == "size":
            if axis == 0:
                items = self.item_edges.get(node.id)
                return Origin(node.span, "its items") if items is None else Hop(items, 0)
            axis -= 1
        return self._step(node, edge.source_port, aspect, axis)

    def _given(self, name: str, aspect: Aspect, axis: int) -> Origin:
        declared = self.graph.program.inputs[name].type
        symbols: tuple[str, ...] = ()
        axes = self.graph.inputs[name].axes
        if aspect == "rate":
            symbols = (f"@inputs.{name}",)
        elif aspect == "size" and axis < len(axes):
            symbols = tuple(f"inputs.{name}.{symbol}" for symbol in axes[axis].size.symbols)
        return Origin(declared.span, f"declared as {declared.text}", self._cause(symbols))

    def _cause(self, symbols: tuple[str, ...]) -> Cause | None:
        causes = self.unifier.equations.causes
        return next((causes[symbol] for symbol in symbols if symbol in causes), None)

    def _step(self, node: Node, port: Port, aspect: Aspect, axis: int) -> Hop | Origin:
        pattern = port.pattern
        if aspect == "size" and axis < len(pattern.axes):
            return self._size(node, pattern, axis)
        if aspect == "rate" and pattern.rate is not None:
            return self._rate(node, pattern)
        if aspect == "vocabulary" and pattern.vocabulary is not None:
            return self._named(node, pattern.vocabulary.symbols)
        if aspect == "dtype" and pattern.dtype == "act" and node.component is not None:
            spec = node.component.spec
            return Origin(spec.dtype_span or spec.use.span, f"`{spec.name.text}` works in {show_dtype(spec.dtype)}")
        captured = self.frames[node.id].sources.get(pattern.base) if pattern.base.startswith(ANY) else None
        if captured is None or aspect == "rate":
            return self._declared(node)._replace(settled=self._cause((f"@{node.id}/{port.name}",)))
        return Hop(captured, self._captured_axis(captured, pattern, axis))

    def _captured_axis(self, edge: Edge, pattern: Type, axis: int) -> int:
        target = self.graph.nodes[edge.target_node]
        assert edge.target_port is not None
        shift = 1 if target.each and edge.spec.streams else 0
        return axis - len(pattern.axes) + len(edge.target_port.pattern.axes) + shift

    def _size(self, node: Node, pattern: Type, axis: int) -> Hop | Origin:
        symbols = pattern.axes[axis].size.symbols
        return self._named(node, symbols) if symbols else self._declared(node)

    def _named(self, node: Node, names: tuple[str, ...]) -> Hop | Origin:
        """Where the first of a signature's names got its value."""
        for name in names:
            written = self._attribute(node, name)
            if written is not None:
                return written
            if node.component is not None and name in node.component.signature.sizes:
                return self._component_size(node.component, name)
            cause = self.unifier.equations.causes.get(f"{node.id}.{name}")
            if cause is not None:
                return self._over(cause)
        if names:
            return Origin(node.span, f"`{node.id}` decides its {names[0]} when it runs")
        return self._declared(node)

    def _over(self, cause: Cause) -> Hop:
        edge, axis = cause
        target = self.graph.nodes[edge.target_node]
        return Hop(edge, axis + (1 if target.each and edge.spec.streams else 0))

    def _rate(self, node: Node, pattern: Type) -> Hop | Origin:
        assert pattern.rate is not None
        name = pattern.rate.variable
        if name is None:
            return self._declared(node)
        written = self._attribute(node, name)
        if written is not None:
            return written
        cause = self.unifier.equations.causes.get(f"@{node.id}.{name}")
        return self._declared(node) if cause is None else Hop(cause.edge, -1)

    def _attribute(self, node: Node, name: str) -> Origin | None:
        value = node.attributes.get(name)
        if not isinstance(value, int | float) or isinstance(value, bool):
            return None
        specs = [spec.attributes for spec in (node.loop_spec, node.spec) if spec is not None]
        for attributes in specs:
            if name in attributes:
                return Origin(attributes[name].span, f"`{name}` is {value} here")
        return Origin(node.span, f"`{name}` is {value} by default")

    def _component_size(self, component: Component, name: str) -> Origin:
        spec, declared, value = component.spec, component.signature.sizes[name], component.sizes.get(name)
        if value is None:
            cause = self._cause((f"?{spec.name.text}.{name}",))
            return Origin(spec.use.span, f"only a checkpoint tells `{name}` of `{spec.name.text}`", cause)
        if isinstance(declared, FromConfig):
            where = f", `{declared.path}` in its {declared.file}" if spec.source else ", the default"
            return Origin(spec.use.span, f"`{name}` of `{spec.name.text}` is {value}{where}")
        return Origin(spec.use.span, f"`{name}` of `{spec.name.text}` is {value}")

    def _declared(self, node: Node) -> Origin:
        if node.component is not None:
            spec = node.component.spec
            return Origin(spec.use.span, f"`{spec.use.text}` declares it")
        if node.spec is not None:
            return Origin(node.spec.name.span, f"op `{node.spec.name.text}` declares it")
        return Origin(node.span, "declared here")


def _shown(hops: list[Edge]) -> list[Label]:
    """Labels of the edges in order; the middle of a long way is counted, not shown."""
    if len(hops) > MAX_HOPS:
        left_out = len(hops) - MAX_HOPS + 1
        middle = Label(span=hops[1].spec.span, text=f"and over {left_out} more edges, from here on")
        return [_passed(hops[0]), middle, *(_passed(edge) for edge in hops[-(MAX_HOPS - 2) :])]
    return [_passed(edge) for edge in hops]


def _passed(edge: Edge) -> Label:
    return Label(span=edge.spec.span, text="passed on here")
