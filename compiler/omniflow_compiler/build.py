"""Builds the graph: every edge end is given its node and port."""

from __future__ import annotations

from collections.abc import Mapping

from omniflow_compiler import codes
from omniflow_compiler.diagnostics import Edit, Report
from omniflow_compiler.digraph import Digraph
from omniflow_compiler.graph import Component, Edge, Node, ProgramGraph
from omniflow_compiler.inputs import check_default_within, input_type
from omniflow_compiler.library.signature import Port
from omniflow_compiler.meant import is_backwards
from omniflow_compiler.spec import CardSpec, EdgeSpec, PortRef, ProgramSpec
from omniflow_compiler.suggest import did_you_mean, nearest


def build_graph(
    program: ProgramSpec,
    card: CardSpec,
    components: Mapping[str, Component],
    nodes: Mapping[str, Node],
    report: Report,
) -> ProgramGraph:
    """The program's graph; edges with an end that does not exist are reported and left out."""
    inputs = {name: input_type(spec, report) for name, spec in program.inputs.items()}
    edges = [edge for spec in program.edges if (edge := _edge(spec, program, nodes, report)) is not None]
    for output in () if report.is_full else program.outputs.values():
        _check_end(output.ref, nodes, "output", report)
    graph = Digraph(nodes)
    incoming: dict[str, list[Edge]] = {name: [] for name in nodes}
    outgoing: dict[str, list[Edge]] = {name: [] for name in nodes}
    for edge in edges:
        incoming[edge.target_node].append(edge)
        if edge.source_node is None:
            for contract in edge.spec.contracts:
                check_default_within(program.inputs[edge.spec.source.port], contract, report)
        else:
            outgoing[edge.source_node].append(edge)
            if not edge.is_back:
                graph.add_edge(edge.source_node, edge.target_node)
    return ProgramGraph(
        card=card,
        program=program,
        components=components,
        inputs=inputs,
        nodes=nodes,
        edges=tuple(edges),
        incoming={name: tuple(found) for name, found in incoming.items()},
        outgoing={name: tuple(found) for name, found in outgoing.items()},
        graph=graph,
    )


def _edge(spec: EdgeSpec, program: ProgramSpec, nodes: Mapping[str, Node], report: Report) -> Edge | None:
    if report.is_full:
        return None
    if is_backwards(spec, program, nodes):
        end = str(spec.target).rstrip(".")
        arrow = "~>" if spec.streams else "->"
        help = [f"write `{end} {arrow} {spec.source}`"]
        report.add(codes.BAD_EDGE, spec.span, "the edge runs backwards: it begins at an input port", help=help)
        return None
    if not spec.target.port and spec.target.node in program.outputs and spec.target.node not in nodes:
        help = [f"name the port under `outputs:`, as in `{spec.target.node}: {spec.source}`"]
        message = f"`{spec.target.node}` is an output of the program: edges end at ports of nodes"
        report.add(codes.BAD_EDGE, spec.target.span, message, help=help)
        return None
    source_ok, source = _source(spec.source, program, nodes, report)
    target_ok, target = _check_end(spec.target, nodes, "input", report)
    if not (source_ok and target_ok):
        return None
    assert spec.target.node is not None
    return Edge(
        spec=spec,
        source_node=spec.source.node,
        source_port=source,
        target_node=spec.target.node,
        target_port=target,
    )


def _source(ref: PortRef, program: ProgramSpec, nodes: Mapping[str, Node], report: Report) -> tuple[bool, Port | None]:
    if ref.node is not None:
        return _check_end(ref, nodes, "output", report)
    if ref.port in program.inputs:
        return True, None
    help = did_you_mean(ref.port, program.inputs, "input")
    if ref.port in nodes:
        ports = sorted(nodes[ref.port].outputs)
        help = [f"`{ref.port}` is a node: name its port, {' or '.join(f'`{ref.port}.{p}`' for p in ports)}"]
    report.add(codes.UNKNOWN_INPUT, ref.span, f"unknown program input `{ref.port}`", help=help)
    return False, None


def _check_end(ref: PortRef, nodes: Mapping[str, Node], side: str, report: Report) -> tuple[bool, Port | None]:
    assert ref.node is not None
    node = nodes.get(ref.node)
    if not ref.port and node is not None:
        help = [f"name one: {', '.join(f'`{ref.node}.{port}`' for port in node.inputs)}"] if node.inputs else []
        report.add(codes.BAD_EDGE, ref.span, f"the edge ends at node `{ref.node}`, not at a port of it", help=help)
        return False, None
    if node is None:
        stage, _, name = ref.node.rpartition("/")  # inside a graph, names are the graph's own
        span = ref.span.part(0, len(name)) if ref.span.line == ref.span.end_line else ref.span
        beside = _beside(stage, nodes)
        close = [] if report.is_crowded else nearest(name, beside, most=1)
        if close and beside[close[0]].spec is None:
            return False, None  # a node whose id cannot be read
        edits = [Edit(span=span, text=close[0])] if close else []
        report.add(
            codes.UNKNOWN_NODE,
            span,
            f"unknown node `{name}`",
            help=[] if report.is_crowded else did_you_mean(name, beside, "node"),
            edits=edits,
        )
        return False, None
    if not node.is_known and not node.inputs:
        return True, None
    ports, others = (node.outputs, node.inputs) if side == "output" else (node.inputs, node.outputs)
    port = ports.get(ref.port)
    if port is None:
        _unknown_port(ref, node, side, ports, others, report)
        return False, None
    return True, port if node.is_known else None


def _beside(stage: str, nodes: Mapping[str, Node]) -> Mapping[str, Node]:
    """The nodes of one graph, under the names they have there."""
    if not stage:
        return nodes
    prefix = f"{stage}/"
    inside = {name.removeprefix(prefix): node for name, node in nodes.items() if name.startswith(prefix)}
    return {name: node for name, node in inside.items() if "/" not in name}


def _own(node: str) -> str:
    """A node's id as its own file has it."""
    return node.rpartition("/")[2]


def _unknown_port(
    ref: PortRef, node: Node, side: str, ports: Mapping[str, Port], others: Mapping[str, Port], report: Report
) -> None:
    offset = len((ref.node or "").rpartition("/")[2]) + 1
    span = ref.span.part(offset, len(ref.port)) if ref.span.line == ref.span.end_line else ref.span
    if ref.port in others:
        other = "input" if side == "output" else "output"
        message = f"`{ref}` is an {other} port, an {side} is needed here"
        help = did_you_mean(ref.port, ports, f"{side} port")
    else:
        message = f"node `{_own(node.id)}` ({node.label}) has no {side} port `{ref.port}`"
        help = did_you_mean(ref.port, ports, f"{side} port")
    close = nearest(ref.port, ports, most=1)
    report.add(codes.UNKNOWN_PORT, span, message, help=help, edits=[Edit(span=span, text=close[0])] if close else [])
