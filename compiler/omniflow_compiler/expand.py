"""Replaces every node that names a graph file by that graph's own nodes: `speech` becomes `speech/segment` etc."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace

from omniflow_compiler import codes
from omniflow_compiler.diagnostics import Label, Report
from omniflow_compiler.files import Chain, open_spec
from omniflow_compiler.load.tree import Scalar
from omniflow_compiler.names import unknown
from omniflow_compiler.parse.program import parse_program
from omniflow_compiler.source import SourceSet, Span
from omniflow_compiler.spec import Attribute, EdgeSpec, Name, NodeSpec, OutputSpec, PortRef, ProgramSpec
from omniflow_compiler.suggest import nearest

MAX_NODES = 200_000


def expand_graphs(program: ProgramSpec, chain: Chain, sources: SourceSet, report: Report) -> ProgramSpec:
    """The program with no graph nodes left; edges to and from them lead to what their ports stand for."""
    graphs = {name: spec for name, spec in program.nodes.items() if spec.kind == "graph"}
    if not graphs:
        return program
    parts = _Parts(nodes={n: s for n, s in program.nodes.items() if n not in graphs}, broken=set(program.broken_nodes))
    for name, spec in graphs.items():
        graph = _open(spec, chain, sources, report)
        if graph is None or not graph.is_whole or not _has_room(spec, graph, parts, chain, report):
            parts.broken.add(name)
        else:
            parts.add(name, spec, graph)
    edges = [new for edge in program.edges for new in parts.rewire(edge, report)]
    edges += parts.inner_edges
    _check_fed(program, parts, report)
    outputs = {name: parts.output(spec, report) for name, spec in program.outputs.items()}
    return replace(
        program,
        nodes=parts.nodes,
        broken_nodes=frozenset(parts.broken),
        edges=tuple(replace(edge, order=order) for order, edge in enumerate(edges)),
        outputs={name: spec for name, spec in outputs.items() if spec is not None},
        mentioned=program.mentioned | parts.mentioned,
        is_whole=program.is_whole and not chain.opened.has_too_many_nodes,
    )


def _open(spec: NodeSpec, chain: Chain, sources: SourceSet, report: Report) -> ProgramSpec | None:
    """The graph a node names, itself expanded."""
    given = spec.attributes.get("params")
    params = given.value if given is not None and isinstance(given.value, dict) else {}
    key = (spec.span, spec.name.text, tuple(sorted((str(name), _text(value)) for name, value in params.items())))
    if key not in chain.opened.graphs:
        chain.opened.graphs[key] = _expanded(spec, given, params, chain, sources, report)
    return chain.opened.graphs[key]


def _expanded(
    spec: NodeSpec,
    given: Attribute | None,
    params: Mapping[str, object],
    chain: Chain,
    sources: SourceSet,
    report: Report,
) -> ProgramSpec | None:
    opened = open_spec(spec.name, ("graph",), chain, sources, report)
    if opened is None:
        return None
    path, _, tree = opened
    overrides = {k: Scalar(_text(v), given.span, _text(v)) for k, v in params.items()} if given is not None else {}
    graph = parse_program(tree, overrides, report, kind="graph")
    for name in params:
        if name not in graph.params and given is not None:
            unknown(report, codes.UNKNOWN_PARAM, Name(text=str(name), span=given.span), graph.params, "param")
    for name, written in spec.attributes.items():
        if name != "params":
            help = ["a graph node takes `params` and `when`"]
            report.add(codes.UNKNOWN_KEY, written.key_span, f"unknown key `{name}` in node `{spec.id.text}`", help=help)
    if spec.each:
        help = ["give `each: true` to the nodes inside it"]
        report.add(codes.BAD_VALUE, spec.id.span, "a graph cannot run for each item", help=help)
    return expand_graphs(graph, chain.then(path, spec.name), sources, report)


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _has_room(spec: NodeSpec, graph: ProgramSpec, parts: _Parts, chain: Chain, report: Report) -> bool:
    """Whether the graph's nodes can come to those that are there; else says so, once."""
    size = len(graph.nodes) + len(graph.broken_nodes) + len(graph.mentioned)
    if len(parts.nodes) + len(parts.broken) + len(parts.mentioned) + size <= MAX_NODES:
        return True
    if not chain.opened.has_too_many_nodes:
        message = f"with the {size} nodes of graph `{spec.id.text}` there are more than the limit of {MAX_NODES}"
        report.add(codes.BAD_VALUE, spec.id.span, message, help=["graphs that name graphs multiply: use fewer"])
    chain.opened.has_too_many_nodes = True
    return False


@dataclass(slots=True)
class _Parts:
    """The program as it grows."""

    nodes: dict[str, NodeSpec]
    broken: set[str]
    graphs: dict[str, ProgramSpec] = field(default_factory=dict)
    specs: dict[str, NodeSpec] = field(default_factory=dict)
    inner_edges: list[EdgeSpec] = field(default_factory=list)
    mentioned: set[str] = field(default_factory=set)  # by edges that lead nowhere

    def add(self, name: str, spec: NodeSpec, graph: ProgramSpec) -> None:
        self.graphs[name], self.specs[name] = graph, spec
        for inner, node in graph.nodes.items():
            self.nodes[f"{name}/{inner}"] = replace(
                node, id=replace(node.id, text=f"{name}/{inner}"), when=_both(spec.when, node.when)
            )
        self.broken |= {f"{name}/{inner}" for inner in graph.broken_nodes}
        self.mentioned |= {f"{name}/{text}" for text in graph.mentioned}
        for edge in graph.edges:
            if edge.source.node is not None:
                source, target = _inside(name, edge.source), _inside(name, edge.target)
                self.inner_edges.append(replace(edge, source=source, target=target))

    def rewire(self, edge: EdgeSpec, report: Report) -> Iterator[EdgeSpec]:
        """The edges that stand for one edge of the program."""
        source = self.source(edge.source, report)
        graph = self.graphs.get(edge.target.node or "")
        if source is None:
            self.mentioned.add(str(edge.target))
            return
        edge = replace(edge, source=source)
        if graph is None:
            yield edge
            return
        port = edge.target.port
        if port not in graph.inputs:
            at = Name(text=port, span=port_span(edge.target))
            unknown(report, codes.UNKNOWN_PORT, at, graph.inputs, "input port")
            self.mentioned |= {str(edge.source), *mentions(edge.target.node or "", graph)}
            return
        for inner in graph.edges:
            if inner.source.node is None and inner.source.port == port:
                yield _joined(edge, inner, graph, edge.target.node or "")

    def source(self, ref: PortRef, report: Report) -> PortRef | None:
        """The port that a reference stands for; None when a graph has no such output."""
        graph = self.graphs.get(ref.node or "")
        if graph is None:
            return ref
        output = graph.outputs.get(ref.port)
        if output is None:
            at = Name(text=ref.port, span=port_span(ref))
            unknown(report, codes.UNKNOWN_PORT, at, graph.outputs, "output port")
            self.mentioned |= mentions(ref.node or "", graph)
            return None
        return replace(_inside(ref.node or "", output.ref), span=ref.span)

    def output(self, spec: OutputSpec, report: Report) -> OutputSpec | None:
        ref = self.source(spec.ref, report)
        return None if ref is None else replace(spec, ref=ref)


def _inside(name: str, ref: PortRef) -> PortRef:
    return replace(ref, node=f"{name}/{ref.node}")


def port_span(ref: PortRef) -> Span:
    """Where a reference names its port."""
    return ref.span.part(len(ref.node or "") + 1, len(ref.port)) if ref.span.line == ref.span.end_line else ref.span


def mentions(name: str, graph: ProgramSpec) -> set[str]:
    """What the ports of a graph or stage stand for: nobody complains that these are unfed or unread."""
    fed = {f"{name}/{edge.target}" for edge in graph.edges if edge.source.node is None}
    return fed | {f"{name}/{output.ref}" for output in graph.outputs.values()}


def _joined(outer: EdgeSpec, inner: EdgeSpec, graph: ProgramSpec, name: str) -> EdgeSpec:
    """An edge into a graph and the edge from its port on, as one: it streams when both do."""
    streams = outer.streams and inner.streams
    return replace(
        outer,
        target=_inside(name, inner.target),
        streams=streams,
        attributes={**inner.attributes, **outer.attributes} if streams or outer.attributes else {},
        contracts=(*outer.contracts, graph.inputs[inner.source.port], *inner.contracts),
    )


def _both(outer: Attribute | None, inner: Attribute | None) -> Attribute | None:
    if outer is None or inner is None:
        return outer or inner
    return replace(inner, value=f"({outer.value}) and ({inner.value})")


def _check_fed(program: ProgramSpec, parts: _Parts, report: Report) -> None:
    # An edge with a misspelt end may have been meant for a port: do not complain twice.
    known = {*program.nodes, *program.broken_nodes}
    fed: dict[str, set[str]] = {}
    for edge in program.edges:
        node = edge.target.node or ""
        meant = node if node in known else next(iter(nearest(node, known, most=1)), node)
        fed.setdefault(meant, set()).add(edge.target.port)
    for name, graph in parts.graphs.items():
        for port, spec in graph.inputs.items():
            written = fed.get(name, set())
            if port in written or nearest(port, written - graph.inputs.keys()):
                continue
            label = Label(span=spec.type.span, text="declared here")
            span, help = parts.specs[name].id.span, [f"add an edge `... -> {name}.{port}`"]
            report.add(codes.MISSING_INPUT, span, f"input `{name}.{port}` has no producer", labels=[label], help=help)
            parts.mentioned |= mentions(name, graph)
