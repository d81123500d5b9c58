"""Checks the shape of the graph: producers, required inputs, cycles, reachability."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping, Set
from dataclasses import replace
from itertools import islice

from omniflow_compiler import codes
from omniflow_compiler.diagnostics import Label, Report
from omniflow_compiler.digraph import Digraph, connected_parts
from omniflow_compiler.graph import Edge, Node, ProgramGraph
from omniflow_compiler.library.signature import Port
from omniflow_compiler.meant import Meant, what_is_meant

CUT_OFF = (codes.MISSING_INPUT, codes.SELF_LOOP, codes.CYCLE, codes.BACK_EDGE)


def check_structure(graph: ProgramGraph, report: Report) -> None:
    """Reports every fault of shape; the graph may still be used for what does not depend on it."""
    meant = what_is_meant(graph.program, graph.nodes)
    connected = {*meant.read, *(node for node, _ in meant.fed)}
    by_base: dict[str, list[str]] = {}
    rings = _check_cycles(graph, report)
    for node in graph.nodes.values():
        _check_producers(node, rings, graph, report)
        if node.id in connected:  # of the others it is said that they feed nothing
            _check_required(node, meant, by_base, graph, report)
    _check_back_edges(graph, report)
    _check_exits(graph, report)
    _check_outputs(graph, report)


def _check_producers(node: Node, rings: Set[int], graph: ProgramGraph, report: Report) -> None:
    """Reports ports with a second producer, unless the edge that is too many closes a cycle that was reported."""
    first: dict[str, Edge] = {}
    for edge in graph.incoming[node.id]:
        port = edge.spec.target.port
        if port not in first:
            first[port] = edge
        elif edge.target_port is not None and not edge.target_port.variadic:
            if _has_condition(first[port], graph) and _has_condition(edge, graph):
                continue  # branches of which one runs
            if {first[port].key, edge.key} & rings:
                continue
            one, other = first[port].spec.source, edge.spec.source
            message = f"`{edge.spec.target}` has two producers, `{one}` and `{other}`"
            help = ["join the two with an op such as `concat` or `add`, or remove one edge"]
            if (one.node, one.port) == (other.node, other.port):
                message, help = f"`{edge.spec.target}` is fed by `{other}` twice", ["remove one of the edges"]
            label = Label(span=first[port].spec.target.span, text="already fed here")
            report.add(codes.TWO_PRODUCERS, edge.spec.target.span, message, labels=[label], help=help)


def _has_condition(edge: Edge, graph: ProgramGraph) -> bool:
    """Whether the edge's producer runs only when a condition holds."""
    node = graph.nodes.get(edge.source_node or "")
    return node is not None and node.spec is not None and node.spec.when is not None


def _check_required(
    node: Node, meant: Meant, by_base: dict[str, list[str]], graph: ProgramGraph, report: Report
) -> None:
    for port in node.inputs.values():
        if port.required and (node.id, port.name) not in meant.fed:
            if not by_base:
                by_base |= _producers_by_base(graph, meant)
            report.add(
                codes.MISSING_INPUT,
                node.span,
                f"input `{node.id}.{port.name}` has no producer",
                note=f"{node.label} needs {_needed(port)}",
                help=_candidates(node.id, port, by_base),
            )


def _needed(port: Port) -> str:
    """What a port takes, as people say it."""
    if port.pattern.base.startswith("?"):
        return "a stream of items" if port.pattern.is_items else "a value of any kind"
    return replace(port.pattern, vocabulary=None).short


def _producers_by_base(graph: ProgramGraph, meant: Meant) -> dict[str, list[str]]:
    """What gives a value of each base, first what nothing reads, in order of name."""
    found: dict[str, list[tuple[bool, str]]] = {}
    for node in graph.nodes.values():
        for output in node.outputs.values():
            found.setdefault(output.pattern.base, []).append((node.id in meant.read, f"{node.id}.{output.name}"))
    for name, type in graph.inputs.items():
        found.setdefault(type.base, []).append((name in meant.inputs, name))
    return {base: [name for _, name in sorted(producers)] for base, producers in found.items()}


def _candidates(node: str, port: Port, by_base: Mapping[str, list[str]]) -> list[str]:
    fitting = (name for name in by_base.get(port.pattern.base, ()) if not name.startswith(f"{node}."))
    shown = list(islice(fitting, 6))
    if not shown:
        return [f"add an edge `... -> {node}.{port.name}`"]
    return [f"ports of that kind: {', '.join(f'`{name}`' for name in shown)}"]


def _check_cycles(graph: ProgramGraph, report: Report) -> set[int]:
    """Reports cycles that no back edge declares; the keys of their edges."""
    by_ends = {(edge.source_node, edge.target_node): edge for edge in reversed(graph.edges) if not edge.is_back}
    found: set[int] = set()
    for component in connected_parts(graph.graph):
        if len(component) > 1:
            path = shortest_cycle(graph, component)
        elif graph.graph.has_edge(*component, *component):
            path = list(component)
        else:
            continue
        edges = [by_ends[a, b] for a, b in zip(path, [*path[1:], path[0]], strict=True)]
        found |= {edge.key for edge in edges}
        if all(edge.spec.is_sound for edge in edges):  # else one may be a back edge, written with a fault
            _report_cycle(path, edges, report)
    return found


def shortest_cycle(graph: ProgramGraph, component: Iterable[str]) -> list[str]:
    """One shortest cycle through the component's first node by name, as node ids in order."""
    members = set(component)
    start = min(members)
    before: dict[str, str] = {}
    queue = deque([start])
    while queue:
        name = queue.popleft()
        for target in sorted(set(graph.graph.successors(name)) & members):
            if target == start:
                path = [name]
                while path[-1] != start:
                    path.append(before[path[-1]])
                return path[::-1]
            if target not in before:
                before[target] = name
                queue.append(target)
    return [start]


def _report_cycle(path: list[str], edges: list[Edge], report: Report) -> None:
    if len(path) == 1:
        report.add(codes.SELF_LOOP, edges[0].spec.span, f"node `{path[0]}` feeds itself", help=_declared(edges))
        return
    path, edges, help = _as_written(path, edges)
    last = max(edges, key=lambda edge: edge.key)
    shown = [*path, path[0]]
    if len(shown) > 12:
        shown = [*shown[:6], f"({len(shown) - 10} more)", *shown[-4:]]
    report.add(
        codes.CYCLE,
        last.spec.span,
        f"undeclared cycle: {' -> '.join(shown)}",
        labels=[Label(span=edge.spec.span, text="and this edge") for edge in edges if edge is not last][:6],
        help=help,
    )


def _as_written(path: list[str], edges: list[Edge]) -> tuple[list[str], list[Edge], list[str]]:
    """A cycle as its author knows it: one through several graphs or stages as their names and the edges between them.
    With what to do about it.
    """
    owners = [name.partition("/")[0] for name in path]
    if not any("/" in name for name in path) or len(set(owners)) == 1:
        return path, edges, _declared(edges)
    between = [i for i, owner in enumerate(owners) if owner != owners[(i + 1) % len(owners)]]
    help = "remove one of these edges: the stages of a workflow run one after another"
    if not all("/" in name for name in path):
        help = "if it is meant, give one of these edges `{back_edge: {initial: 0, bound: 8}}`"
    return [owners[i] for i in between], [edges[i] for i in between], [help]


def _declared(edges: Iterable[Edge]) -> list[str]:
    """How the cycle is declared, at its last edge that can carry a stream back."""
    fitting = [edge for edge in edges if edge.target_port is not None and edge.target_port.streams]
    if not fitting:
        return ["remove one of its edges: none of its ports takes a stream, so that it cannot be fed back"]
    spec = max(fitting, key=lambda edge: edge.key).spec
    return [f"if it is meant, declare it: `- {spec.source} ~> {spec.target}: {{back_edge: {{initial: 0, bound: 8}}}}`"]


def _check_back_edges(graph: ProgramGraph, report: Report) -> None:
    for edge in graph.edges:
        written = edge.spec.attributes.get("back_edge")
        if written is None:
            continue
        value = written.value if isinstance(written.value, dict) else {}
        missing = [key for key in ("initial", "bound") if key not in value]
        if missing:
            message = f"back edge has no {' and no '.join(f'`{m}`' for m in missing)}"
            help = ["`initial` is what the first round reads, `bound` the most rounds"]
            report.add(codes.BACK_EDGE, written.span, message, help=help)
        elif not edge.spec.streams:
            message = f"a back edge carries a stream, `{edge.spec.source} -> {edge.spec.target}` a finished value"
            report.add(codes.BACK_EDGE, edge.spec.span, message, help=_streaming(edge))
        elif not _closes_ring(edge, graph):
            message = f"back edge `{edge.spec.source} ~> {edge.spec.target}` closes no ring"
            help = ["leave `back_edge` out: it is for what comes back to a node that it depends on"]
            report.add(codes.BACK_EDGE, written.key_span, message, help=help)


def _streaming(edge: Edge) -> list[str]:
    if edge.target_port is not None and not edge.target_port.streams:
        return [f"`{edge.spec.target}` takes a finished value: let the ring end at a port that takes a stream"]
    return [f"write `{edge.spec.source} ~> {edge.spec.target}`"]


def _closes_ring(edge: Edge, graph: ProgramGraph) -> bool:
    """Whether the back edge's reader leads to its writer."""
    reached, stack = {edge.target_node}, [edge.target_node]
    while stack:
        for onward in graph.outgoing[stack.pop()]:
            if onward.target_node not in reached:
                reached.add(onward.target_node)
                stack.append(onward.target_node)
    return edge.source_node in reached


def _check_exits(graph: ProgramGraph, report: Report) -> None:
    """Reports rings of back edges from which no way leads to an output; other dead ends are nodes that feed nothing."""
    ends = {output.ref.node for output in graph.program.outputs.values()} | graph.program.stage_outputs
    useful = {name for name in ends if name is not None and name in graph.nodes}
    stack = list(useful)
    while stack:
        for edge in graph.incoming[stack.pop()]:
            if edge.source_node is not None and edge.source_node not in useful:
                useful.add(edge.source_node)
                stack.append(edge.source_node)
    rings = [edge for edge in graph.edges if edge.is_back and edge.source_node in graph.nodes]
    dead = [edge for edge in rings if edge.source_node not in useful]
    if not dead or report.has_unresolved_names:
        return
    names = {name for name in graph.nodes if name not in useful}
    inside = Digraph(names)
    for edge in graph.edges:
        if edge.source_node is not None and {edge.source_node, edge.target_node} <= names:
            inside.add_edge(edge.source_node, edge.target_node)
    part_of = {name: number for number, part in enumerate(connected_parts(inside)) for name in part}
    told: set[int] = set()
    for edge in dead:
        part = part_of[edge.source_node or ""]
        if part == part_of.get(edge.target_node) and part not in told:
            told.add(part)
            report.add(
                codes.NO_EXIT,
                edge.spec.span,
                f"the ring through `{edge.target_node}` and `{edge.source_node}` leads to no output",
                labels=[Label(span=graph.nodes[edge.target_node].span, text="goes round here")],
                help=["read the last round: name one of its ports as an output, or remove the ring"],
            )


def _check_outputs(graph: ProgramGraph, report: Report) -> None:
    reached = {edge.target_node for edge in graph.edges if edge.source_node is None}
    queue = deque(sorted(reached))
    while queue:
        for target in graph.graph.successors(queue.popleft()):
            if target not in reached:
                reached.add(target)
                queue.append(target)
    if report.has_unresolved_names or report.has(*CUT_OFF):
        return  # what is missing or goes round may be what would have reached it
    for output in graph.program.outputs.values():
        node = graph.nodes.get(output.ref.node or "")
        if node is not None and node.is_known and node.id not in reached and graph.program.inputs:
            report.add(
                codes.UNREACHABLE_OUTPUT,
                output.ref.span,
                f"output `{output.name.text}` cannot be reached from any input",
                labels=[Label(span=node.span, text=f"nothing that leads to `{node.id}` reads an input")],
                help=["connect a program input to one of the nodes before it"],
            )
