"""Branches: which `when:` conditions are decided before a request comes, and whether the rest leave no port unfed or

fed twice. A node that is off does not run; its readers must be off with it, or be fed by another producer then.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from omniflow_compiler import codes
from omniflow_compiler.conditions import Conditions, Undecided, describe
from omniflow_compiler.diagnostics import Label, Report
from omniflow_compiler.digraph import Digraph, connected_parts
from omniflow_compiler.expressions import ExpressionError, Value
from omniflow_compiler.graph import Edge, Node, ProgramGraph
from omniflow_compiler.library.signature import Port

_READABLE = ("text", "scalar", "json")  # bases of inputs that a condition can read


@dataclass(frozen=True, slots=True, kw_only=True)
class Branches:
    """Nodes whose condition is decided: `off` never run, `on` always do."""

    on: frozenset[str] = frozenset()
    off: frozenset[str] = frozenset()


def check_branches(graph: ProgramGraph, report: Report) -> Branches:
    """Reports faulty conditions and ports that conditions leave unfed or feed twice."""
    written = {name: when for name, node in graph.nodes.items() if (when := _when(node)) is not None}
    if not written:
        return Branches()
    conditions = _conditions(graph, written.values())
    sound = {
        name: when for name, when in written.items() if _is_sound(graph.nodes[name], when, conditions, graph, report)
    }
    checker = _Checker(graph=graph, conditions=conditions, written=sound, report=report)
    for node in graph.nodes.values():
        checker.unfed(node)
        checker.producers(node)
    decided = {name: conditions.constant(when) for name, when in sound.items()}
    on = frozenset(name for name, value in decided.items() if value is True)
    return Branches(on=on, off=_off(graph, {name for name, value in decided.items() if value is False}))


def _off(graph: ProgramGraph, off: set[str]) -> frozenset[str]:
    """These nodes and those that need something only they would give."""
    for part in connected_parts(graph.graph) if off else ():
        for name in part:
            node = graph.nodes[name]
            for port in node.inputs.values():
                edges = [e for e in graph.incoming[name] if e.spec.target.port == port.name]
                if port.required and edges and all(e.source_node in off for e in edges):
                    off.add(name)
    return frozenset(off)


def _when(node: Node) -> str | None:
    """The node's condition as written."""
    when = node.spec.when if node.spec is not None else None
    return when.value if when is not None and isinstance(when.value, str) else None


def _conditions(graph: ProgramGraph, written: Iterable[str]) -> Conditions:
    params = {**graph.card.params, **graph.program.params}
    known: dict[str, Value] = {
        f"params.{name}": value
        for name, value in params.items()
        if not (isinstance(value, str) and value == f"${name}")
    }
    texts = frozenset(f"inputs.{name}" for name, type in graph.inputs.items() if type.base == "text")
    conditions = Conditions(known=known, texts=texts)
    for text in dict.fromkeys(written):
        try:
            conditions.add(text)
        except ExpressionError:
            continue  # reported where nodes are resolved
    return conditions


def _is_sound(node: Node, when: str, conditions: Conditions, graph: ProgramGraph, report: Report) -> bool:
    """Whether the condition can be evaluated and means something."""
    assert node.spec is not None
    assert node.spec.when is not None
    span = node.spec.when.span
    try:
        names = conditions.names(when)
        for name in sorted(names):
            type = graph.inputs.get(name.removeprefix("inputs."))
            if name.startswith("inputs.") and type is not None and type.base not in _READABLE:
                help = ["a condition reads inputs of type text, scalar or json, and params"]
                report.add(codes.CONDITION, span, f"`{name}` is {type.short}: a condition cannot read it", help=help)
                return False
        if not all(name in conditions.known or _is_input(name, graph) for name in names):
            return False  # reported where nodes are resolved, or a path that is not set
        constant = conditions.constant(when, free=True)
    except ExpressionError as error:
        if conditions.is_readable(when):
            report.add(
                codes.CONDITION,
                span,
                f"`{when}` has no value: {error}",
                help=["compare texts with texts and numbers with numbers"],
            )
        return False
    if constant is not None:
        report.add(
            codes.CONSTANT_CONDITION,
            span,
            f"`when` of node `{node.id}` is always {str(constant).lower()}",
            help=["remove the condition" if constant else "remove the node, or mend the condition"],
        )
    return True


@dataclass(slots=True, kw_only=True)
class _Checker:
    graph: ProgramGraph
    conditions: Conditions
    written: Mapping[str, str]
    report: Report

    def unfed(self, node: Node) -> None:
        """Reports a node that may run while nothing feeds a port it needs, once."""
        by_port = self._edges_by_port(node)
        for port in node.inputs.values() if node.is_known else ():
            edges = by_port.get(port.name, [])
            is_at_risk = port.required and edges and all(self._condition(edge) is not None for edge in edges)
            if is_at_risk and self._may_be_unfed(node, port, edges):
                return

    def _edges_by_port(self, node: Node) -> dict[str, list[Edge]]:
        by_port: dict[str, list[Edge]] = {}
        for edge in self.graph.incoming[node.id]:
            if edge.target_port is not None and not edge.is_back:
                by_port.setdefault(edge.target_port.name, []).append(edge)
        return by_port

    def _condition(self, edge: Edge) -> str | None:
        return self.written.get(edge.source_node or "")

    def _may_be_unfed(self, node: Node, port: Port, edges: list[Edge]) -> bool:
        given = [self.written[node.id]] if node.id in self.written else []
        wanted = [self.written[edge.source_node or ""] for edge in edges]
        if given and set(given) & set(wanted):
            return False
        try:
            case = self.conditions.counterexample(given, wanted)
        except (Undecided, ExpressionError):
            case = {}
        if case is None:
            return False
        when = describe(case)
        names = " and ".join(f"`{edge.source_node}`" for edge in edges)
        verb = "is" if len(edges) == 1 else "are"
        own = "one producer for each case, or " if len(edges) > 1 else ""
        self.report.add(
            codes.MAYBE_UNFED,
            edges[0].spec.target.span,
            f"`{node.id}` runs while {names}, which feed{'s' if len(edges) == 1 else ''} its `{port.name}`, {verb} off"
            + (f": when {when}" if when else ""),
            labels=[self._shown(edge.source_node or "") for edge in edges[:4]] + [self._shown(node.id)],
            help=[f"give {own}`{node.id}` the condition `when: {' or '.join(dict.fromkeys(wanted))}`"],
        )
        return True

    def _shown(self, name: str) -> Label:
        node = self.graph.nodes[name]
        if name in self.written and node.spec is not None and node.spec.when is not None:
            return Label(span=node.spec.when.span, text=f"`{name}` runs only then")
        return Label(span=node.span, text="runs always")

    def producers(self, node: Node) -> None:
        """Reports ports with two producers that may run together."""
        for port, edges in self._edges_by_port(node).items():
            is_single = not node.inputs[port].variadic
            if is_single and len(edges) > 1 and all(self._condition(edge) is not None for edge in edges):
                self._exclusive(node, edges)

    def _exclusive(self, node: Node, edges: list[Edge]) -> None:
        for second, edge in enumerate(edges):
            for first in edges[:second]:
                case = self._both(node, first, edge)
                if case is not None:
                    self._report_both(first, edge, case)
                    return

    def _both(self, node: Node, first: Edge, second: Edge) -> Mapping[str, Value] | None:
        """A case in which both producers run; empty when that cannot be ruled out."""
        given = [self.written[name] for name in (first.source_node, second.source_node) if name is not None]
        if node.id in self.written:
            given.append(self.written[node.id])
        try:
            return self.conditions.counterexample(given, [])
        except (Undecided, ExpressionError):
            return {}

    def _report_both(self, first: Edge, second: Edge, case: Mapping[str, Value]) -> None:
        when = describe(case)
        self.report.add(
            codes.OVERLAP,
            second.spec.target.span,
            f"`{first.source_node}` and `{second.source_node}` may both feed `{second.spec.target}`"
            + (f": when {when}" if when else ", their conditions cannot be told apart"),
            labels=[self._shown(first.source_node or ""), self._shown(second.source_node or "")],
            help=[f"give one of them the condition `not ({self._condition(first)})`"],
        )


def _is_input(name: str, graph: ProgramGraph) -> bool:
    return name.startswith("inputs.") and name.removeprefix("inputs.") in graph.inputs


def may_run_together(graph: ProgramGraph, names: Iterable[str]) -> bool:
    """Whether some request has all of these nodes running; true where that cannot be decided."""
    written = sorted({when for name in names if (when := _when(graph.nodes[name])) is not None})
    if len(written) < 2:
        return True
    try:
        return _conditions(graph, written).counterexample(written, []) is not None
    except (Undecided, ExpressionError):
        return True


def without_branches(graph: ProgramGraph, branches: Branches) -> ProgramGraph:
    """The graph without the nodes that are off, and without the conditions that always hold."""
    if not branches.on and not branches.off:
        return graph
    nodes = {name: _settled(node, branches) for name, node in graph.nodes.items() if name not in branches.off}
    edges = tuple(
        e for e in graph.edges if e.target_node in nodes and (e.source_node is None or e.source_node in nodes)
    )
    kept = {edge.key for edge in edges}
    outputs = {name: spec for name, spec in graph.program.outputs.items() if spec.ref.node not in branches.off}
    return replace(
        graph,
        program=replace(graph.program, outputs=outputs),
        nodes=nodes,
        edges=edges,
        incoming={name: tuple(e for e in graph.incoming[name] if e.key in kept) for name in nodes},
        outgoing={name: tuple(e for e in graph.outgoing[name] if e.key in kept) for name in nodes},
        graph=Digraph(
            nodes, ((e.source_node, e.target_node) for e in edges if e.source_node is not None and not e.is_back)
        ),
    )


def _settled(node: Node, branches: Branches) -> Node:
    if node.id not in branches.on or node.spec is None:
        return node
    return replace(node, spec=replace(node.spec, when=None))
