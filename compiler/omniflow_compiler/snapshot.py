"""What is known of a program after each pass, as a dump. Passes only add to what is known, so each can be shown."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass

from omniflow_compiler.dump import Dump, Part
from omniflow_compiler.graph import Component, Edge, Node, ProgramGraph
from omniflow_compiler.passes.network import channel_needs
from omniflow_compiler.passes.plan import Plan
from omniflow_compiler.passes.types import Types
from omniflow_compiler.schedule import Json

PASSES: Mapping[str, str] = {
    "resolve": "every name has its meaning: components, nodes, attributes with defaults",
    "build": "edges connect ports",
    "types": "every port has its type",
    "streams": "every stream is known to be sound",
    "prune": "only what the outputs need is left",
    "plan": "order, units, times, channels, buffers, memory",
}
NEED_SOUND = ("prune", "plan")  # passes that run on programs without faults


@dataclass(frozen=True, slots=True, kw_only=True)
class Known:
    """What the compiler found out; `plan` is there when the program has no faults."""

    graph: ProgramGraph
    types: Types
    outputs: Sequence[str]
    plan: Plan | None


def snapshot(known: Known, after: str) -> Dump:
    """The program as it is after that pass. `prune` and `plan` need a program without faults."""
    step = list(PASSES).index(after)
    graph = known.graph
    if step >= 4:
        assert known.plan is not None
        nodes: Sequence[str] = known.plan.order
        outputs = known.outputs
    else:
        nodes, outputs = sorted(graph.nodes), sorted(graph.program.outputs)
    types = known.types if step >= 2 else None
    plan = known.plan if step >= 5 else None
    parts = [
        Part(kind="program", name=graph.program.id.text, fields=(("card", graph.card.id.text),)),
        *(_input(name, graph) for name in sorted(graph.inputs)),
        *(_component(graph.components[name]) for name in _components(graph, nodes if step >= 4 else None)),
        *(_node(graph.nodes[name], types, plan) for name in nodes),
    ]
    if step >= 1:
        kept = set(nodes)
        edges = sorted((e for e in graph.edges if e.target_node in kept), key=lambda e: (str(e.spec.target), e.key))
        held = channel_needs(graph, known.types).held if step >= 3 else frozenset()
        parts += [_edge(edge, held, step, plan) for edge in edges]
    parts += [_output(name, graph, types) for name in outputs]
    if plan is not None:
        parts += _plan(plan)
    return Dump(after=after, parts=tuple(parts))


def known_of(graph: ProgramGraph, types: Types, outputs: Sequence[str] | None, plan: Plan | None) -> Known:
    """What a compilation knows; `outputs` as requested, all when None."""
    chosen = sorted(name for name in graph.program.outputs if outputs is None or name in outputs)
    return Known(graph=graph, types=types, outputs=chosen, plan=plan)


def _json(value: object) -> Json:
    """The value as it comes back from JSON."""
    if isinstance(value, Mapping):
        return {str(key): _json(item) for key, item in value.items()}
    return [_json(item) for item in value] if isinstance(value, list | tuple) else value


def _filled(*fields: tuple[str, object]) -> tuple[tuple[str, Json], ...]:
    """Fields that say something."""
    return tuple((key, _json(value)) for key, value in fields if value not in (None, (), [], {}, "", False))


def _input(name: str, graph: ProgramGraph) -> Part:
    spec = graph.program.inputs[name]
    default = (("default", _json(spec.default)),) if spec.has_default else ()
    return Part(
        kind="input", name=name, fields=(("type", str(graph.inputs[name])), *default, ("at", str(spec.name.span)))
    )


def _component(component: Component) -> Part:
    spec = component.spec
    return Part(
        kind="component",
        name=spec.name.text,
        fields=_filled(
            ("use", spec.use.text),
            ("role", component.signature.role),
            ("from", spec.source),
            ("dtype", spec.dtype),
            ("device", spec.device),
            ("sizes", dict(component.sizes)),
            ("attributes", dict(component.attributes)),
            ("at", str(spec.name.span)),
        ),
    )


def _components(graph: ProgramGraph, nodes: Sequence[str] | None) -> list[str]:
    """All components, or those that the nodes run."""
    if nodes is None:
        return sorted(graph.components)
    return sorted({component.spec.name.text for name in nodes for component in graph.nodes[name].components})


def _node(node: Node, types: Types | None, plan: Plan | None) -> Part:
    ports: list[tuple[str, object]] = []
    for port in node.inputs.values():
        arriving = None if types is None else types.inputs.get((node.id, port.name))
        ports.append((f"in {port.name}", port.type if arriving is None else str(arriving)))
    for port in node.outputs.values():
        produced = None if types is None else types.outputs.get((node.id, port.name))
        ports.append((f"out {port.name}", port.type if produced is None else str(produced)))
    fields = _filled(
        ("unknown", not node.is_known),
        ("op", node.op.name if node.op is not None else None),
        ("loop", node.loop_spec.name.text if node.loop_spec is not None else None),
        ("kind", node.loop.kind if node.loop is not None else None),
        ("with", [component.spec.name.text for component in node.components]),
        ("each", node.each),
        ("when", node.spec.when.value if node.spec is not None and node.spec.when is not None else None),
        ("attributes", dict(node.attributes)),
        *ports,
    )
    planned = () if plan is None else _planned(node, plan)
    return Part(kind="node", name=node.id, fields=(*fields, *planned, ("at", str(node.span))))


def _planned(node: Node, plan: Plan) -> tuple[tuple[str, Json], ...]:
    return (
        ("depth", plan.depths[node.id]),
        ("units", [_json(asdict(unit)) for unit in plan.units[node.id]]),
        ("starts", plan.timeline.starts[node.id]),
        ("ends", plan.timeline.ends[node.id]),
        *_filled(
            ("bounded by", dict(plan.bounds.lengths.get(node.id, {}))), ("state", plan.memory.state_bytes.get(node.id))
        ),
    )


def _edge(edge: Edge, held: frozenset[int], step: int, plan: Plan | None) -> Part:
    arrow = "~>" if edge.spec.streams else "->"
    written = {key: attribute.value for key, attribute in edge.spec.attributes.items()}
    fields = _filled(*sorted(written.items()), ("back", edge.is_back))
    if step >= 3 and edge.spec.streams:
        fields += _filled(("holds all", edge.key in held))
    if plan is not None and edge.spec.streams:
        fields += (("room", plan.memory.capacities[edge.key]), ("bytes", plan.memory.channel_bytes[edge.key]))
    name = f"{edge.spec.source} {arrow} {edge.spec.target}"
    return Part(kind="edge", name=name, fields=(*fields, ("at", str(edge.spec.span))))


def _output(name: str, graph: ProgramGraph, types: Types | None) -> Part:
    spec = graph.program.outputs[name]
    type = None if types is None else types.outputs.get((spec.ref.node or "", spec.ref.port))
    shown = () if type is None else (("type", str(type)),)
    return Part(kind="output", name=name, fields=(("from", str(spec.ref)), *shown, ("at", str(spec.name.span))))


def _plan(plan: Plan) -> Iterator[Part]:
    for name, length in sorted(plan.lengths.known.items()):
        estimate = (("elements", float(length.elements)), ("bound", length.is_bound))
        yield Part(kind="length", name=name, fields=estimate)
    for buffer in plan.memory.buffers:
        live = [plan.order[buffer.first_use], plan.order[buffer.last_use]]
        yield Part(kind="buffer", name=buffer.port, fields=(("bytes", buffer.bytes), ("live", live)))
    for memory in plan.memory.devices:
        holders = [f"{holder.bytes} {holder.kind} {holder.name}" for holder in memory.holders]
        fields = (("peak", memory.peak_bytes), *_filled(("budget", memory.budget_bytes), ("holders", holders)))
        yield Part(kind="device", name=memory.device, fields=fields)
    path = (("seconds", plan.timeline.seconds), ("path", list(plan.timeline.critical_path)))
    yield Part(kind="critical", name="", fields=path)
