"""Bounds of loops that depend on how long other loops ran: `12 * think.tokens + 64`.

The names in such an expression are `LOOP.PORT` of the same card. In a program the loop must run before the bounded one,
in one node alone; the schedule then names that node's port, and the runtime counts what really came out of it.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from omniflow_compiler import codes
from omniflow_compiler.diagnostics import Label, Report
from omniflow_compiler.expressions import Expression, ExpressionError, Value
from omniflow_compiler.graph import Node, ProgramGraph
from omniflow_compiler.names import within
from omniflow_compiler.passes.order import topological_order
from omniflow_compiler.source import Span
from omniflow_compiler.spec import Attribute, LoopSpec
from omniflow_compiler.suggest import did_you_mean

MAX_TOKENS = 1 << 31


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    """`most` has the most tokens (or chunks) of loop nodes that declare a bound; `lengths` what expressions read."""

    most: Mapping[str, int] = field(default_factory=dict)
    lengths: Mapping[str, Mapping[str, str]] = field(default_factory=dict)


def check_card_bounds(loops: Mapping[str, Node], known: Iterable[str], report: Report) -> None:
    """Reports names in bounds that are no port of a loop of the card; `known` has the names of all its loops."""
    names = set(known)
    for node in loops.values():
        for bound in _expressions(node):
            for name in sorted(bound.expression.names):
                loop, port = bound.split(name)
                if loop not in names or (loop in loops and port not in loops[loop].outputs):
                    _report_name(name, bound, loops, report)


def check_bounds(graph: ProgramGraph, report: Report) -> None:
    """Reports every bound of the program that cannot be known when its loop starts."""
    find_bounds(graph, tuple(topological_order(graph, set(graph.nodes))), report)


def find_bounds(graph: ProgramGraph, order: Sequence[str], report: Report) -> Bounds:
    """The bounds of the loops among these nodes, in topological order; what cannot be known is reported."""
    runs = _Runs.of(graph, order)
    most: dict[str, int] = {}
    lengths: dict[str, Mapping[str, str]] = {}
    for name in order:
        node = graph.nodes[name]
        written = node.attributes.get("max_tokens", node.attributes.get("chunks"))
        if isinstance(written, int) and not isinstance(written, bool):
            most[name] = written
        for bound in _expressions(node):
            ports = _ports(bound, runs, report)
            if ports is not None:
                lengths[name] = ports
                value = _most(bound, ports, most, report)
                if value is not None:
                    most[name] = value
    return Bounds(most=most, lengths=lengths)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Bound:
    """An attribute whose value is an expression."""

    node: Node
    spec: LoopSpec
    attribute: Attribute
    expression: Expression

    def split(self, name: str) -> tuple[str, str]:
        """The loop and the port a name means; loops of a stage know each other by their names in its card."""
        stage, slash, _ = self.spec.name.text.rpartition("/")
        loop, _, port = name.partition(".")
        return f"{stage}{slash}{loop}", port


@dataclass(frozen=True, slots=True, kw_only=True)
class _Runs:
    """Which nodes run which loop, and before which others they run: a bit per node whose loop some bound names."""

    graph: ProgramGraph
    by_loop: Mapping[str, Sequence[str]]
    bits: Mapping[str, int]
    before: Mapping[str, int]

    @staticmethod
    def of(graph: ProgramGraph, order: Sequence[str]) -> _Runs:
        by_loop: dict[str, list[str]] = {}
        named: set[str] = set()
        for name in order:
            spec = graph.nodes[name].loop_spec
            if spec is not None:
                by_loop.setdefault(spec.name.text, []).append(name)
            for bound in _expressions(graph.nodes[name]):
                named |= {bound.split(read)[0] for read in bound.expression.names}
        counted = [node for loop in sorted(named) for node in by_loop.get(loop, ())]
        bits = {name: 1 << i for i, name in enumerate(counted)}
        before: dict[str, int] = {}
        for name in order if bits else ():
            mask = 0
            for source in graph.graph.predecessors(name):
                mask |= before.get(source, 0) | bits.get(source, 0)
            before[name] = mask
        return _Runs(graph=graph, by_loop=by_loop, bits=bits, before=before)

    def upstream(self, loop: str, name: str) -> list[str]:
        """The nodes before `name` that run the loop."""
        return [node for node in self.by_loop.get(loop, ()) if self.bits[node] & self.before[name]]


def _expressions(node: Node) -> Iterator[_Bound]:
    if node.loop is None or node.loop_spec is None:
        return
    for declared in node.loop.attributes:
        written = node.loop_spec.attributes.get(declared.name)
        value = node.attributes.get(declared.name)
        if declared.type == "expression" and isinstance(value, str) and written is not None:
            try:
                expression = Expression(value)
            except ExpressionError:
                continue  # reported where attributes are checked
            yield _Bound(node=node, spec=node.loop_spec, attribute=written, expression=expression)


def _ports(bound: _Bound, runs: _Runs, report: Report) -> dict[str, str] | None:
    """The port behind each name of the expression; None when one is not there."""
    graph = runs.graph
    ports: dict[str, str] = {}
    for name in sorted(bound.expression.names):
        loop, port = bound.split(name)
        ran = runs.by_loop.get(loop, ())
        if loop not in graph.card.loops or (ran and port not in graph.nodes[ran[0]].outputs):
            _report_name(name, bound, {key: graph.nodes[nodes[0]] for key, nodes in runs.by_loop.items()}, report)
            continue
        nodes = runs.upstream(loop, bound.node.id)
        if len(nodes) == 1 and not graph.nodes[nodes[0]].each:
            ports[name] = f"{nodes[0]}.{port}"
        elif nodes or not report.has_unresolved_names:
            _report_nodes(name, bound, loop, [graph.nodes[node] for node in nodes], report)
    return ports if len(ports) == len(bound.expression.names) else None


def _most(bound: _Bound, ports: Mapping[str, str], most: Mapping[str, int], report: Report) -> int | None:
    """The bound when every loop it reads reaches its own; None when one of those has none."""
    values: dict[str, Value] = {}
    for name, port in ports.items():
        source = port.rpartition(".")[0]
        if source not in most:
            return None
        values[name] = most[source]
    span, text, help = bound.attribute.span, bound.expression.text, []
    try:
        value = bound.expression.evaluate(values)
    except ExpressionError as error:
        report.add(codes.BAD_EXPRESSION, span, f"`{text}` has no value: {error}")
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        report.add(codes.BAD_EXPRESSION, span, f"`{text}` is no number of tokens")
        return None
    if value < 1 or value > MAX_TOKENS:
        help = [f"with {', '.join(f'`{name}` at most {values[name]}' for name in sorted(values))}"] if values else []
        message = (
            f"`{text}` allows {value:g} tokens, loop `{bound.spec.name.text}` needs 1 at least, {MAX_TOKENS} at most"
        )
        report.add(codes.BAD_EXPRESSION, span, message, help=help)
        return None
    return math.ceil(value)


def _report_name(name: str, bound: _Bound, loops: Mapping[str, Node], report: Report) -> None:
    own = bound.spec.name.text
    prefix = own[: own.rfind("/") + 1]
    known = [
        f"{loop.removeprefix(prefix)}.{port}"
        for loop, node in loops.items()
        if loop != own and loop.startswith(prefix)
        for port in node.outputs
    ]
    message = f"`{name}` is no length that loop `{own}` can be bounded by"
    help = did_you_mean(name, known, "length")
    report.add(codes.BAD_EXPRESSION, _span(name, bound.attribute), message, help=help)


def _report_nodes(name: str, bound: _Bound, loop: str, nodes: Sequence[Node], report: Report) -> None:
    own = bound.node.id
    labels = [Label(span=bound.node.span, text=f"`{own}` is bounded by it")]
    if len(nodes) > 1:
        message = f"`{name}` could be of {len(nodes)} nodes before `{own}`: {', '.join(node.id for node in nodes[:4])}"
        help = ["run the loop in one of them only, or bound by a number"]
    elif nodes:
        message = f"`{name}` has no bound: node `{nodes[0].id}` runs loop `{loop}` once per item"
        labels.append(Label(span=nodes[0].span, text="once per item"))
        help = ["bound by a number, or by a loop that runs once"]
    else:
        message = f"`{name}` is not known when `{own}` runs: loop `{loop}` does not run before it"
        help = [f"connect an output of loop `{loop}` to a node before `{own}`, or bound by a number"]
    report.add(codes.BAD_EXPRESSION, _span(name, bound.attribute), message, labels=labels, help=help)


def _span(name: str, attribute: Attribute) -> Span:
    return within(str(attribute.value), attribute.span, name)
