"""Lowers the planned graph to the schedule: canonical, hashable, the same for every order of the file."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache

from omniflow_compiler.graph import Component, Edge, Node, ProgramGraph
from omniflow_compiler.library.signature import Port as PortSignature
from omniflow_compiler.limits import Limits, Range, limits_of_inputs, passed, ranges_of_inputs
from omniflow_compiler.passes.memory import weight_bytes
from omniflow_compiler.passes.plan import Plan
from omniflow_compiler.passes.types import Types
from omniflow_compiler.schedule import (
    Cache,
    Channel,
    Expert,
    Input,
    Json,
    Output,
    Place,
    Port,
    PortType,
    Schedule,
    Stage,
    content_hash,
)
from omniflow_compiler.schedule import Inner as ScheduledInner
from omniflow_compiler.schedule import Node as ScheduledNode
from omniflow_compiler.source import Span
from omniflow_compiler.spec import StageSpec
from omniflow_compiler.types import UNKNOWN, Type
from omniflow_compiler.version import VERSION


def lower(graph: ProgramGraph, types: Types, plan: Plan, outputs: Sequence[str]) -> Schedule:
    """The schedule of a graph without faults."""
    nodes = tuple(_node(graph.nodes[name], types, plan) for name in plan.order)
    components = {c.spec.name.text: c for node in _scheduled(graph, plan) for c in node.components}
    read = {e.spec.source.port for name in plan.order for e in graph.incoming[name] if e.source_node is None}
    limits, ranges = limits_of_inputs(graph), ranges_of_inputs(graph)
    schedule = Schedule(
        program=graph.program.id.text,
        card=graph.card.id.text,
        stages=tuple(_stage(stage) for stage in graph.program.stages),
        compiler=VERSION,
        params=dict(sorted({**graph.card.params, **graph.program.params}.items())),
        capabilities=tuple(sorted(name.text for name in graph.card.capabilities)),
        parity=_json(dict(graph.card.parity)),
        inputs=tuple(
            _input(name, graph, types, name in read, limits[name], ranges.get(name, Range()))
            for name in sorted(graph.program.inputs)
        ),
        outputs=tuple(_output(name, graph, types) for name in sorted(outputs)),
        experts=tuple(_expert(components[name]) for name in sorted(components)),
        caches=tuple(_caches(graph, plan)),
        nodes=nodes,
        channels=tuple(_channels(graph, types, plan)),
        buffers=plan.memory.buffers,
        memory=plan.memory.devices,
        critical_path=plan.timeline.critical_path,
        critical_seconds=_seconds(plan.timeline.seconds),
        lengths={name: math.ceil(length.elements) for name, length in sorted(plan.lengths.known.items())},
        assumed=tuple(sorted(name for name, length in plan.lengths.known.items() if not length.is_bound)),
    )
    return replace(schedule, content_hash=content_hash(schedule))


def _scheduled(graph: ProgramGraph, plan: Plan) -> Iterable[Node]:
    return (graph.nodes[name] for name in plan.order)


def _seconds(value: float) -> float:
    """Sums of floats differ in their last digits by order; nobody plans in less than nanoseconds."""
    return round(value, 9)


def place(span: Span) -> Place:
    """Where a span begins."""
    return Place(file=span.file, line=span.line, column=span.column)


@lru_cache(maxsize=4096)
def port_type(type: Type) -> PortType:
    """The part of a type that the runtime reads."""
    rate = type.rate
    vocabulary = None if type.vocabulary is None else type.vocabulary.number
    return PortType(
        text=str(type),
        base=type.base,
        dtype=type.dtype,
        axes=tuple(str(axis.size) + ("*" if axis.items else "") for axis in type.axes),
        rate_hz=None if rate is None or rate.variable is not None else float(rate.factor),
        vocabulary=None if vocabulary is None else int(vocabulary),
    )


def _json(value: object) -> Json:
    """Tuples as lists, mappings with sorted keys."""
    if isinstance(value, Mapping):
        return {str(key): _json(value[key]) for key in sorted(value)}
    if isinstance(value, list | tuple):
        return [_json(item) for item in value]
    return value


def _input(name: str, graph: ProgramGraph, types: Types, is_read: bool, limits: Limits, range: Range) -> Input:
    """A program input with the sizes that its readers settled. Nothing is a stream of no items."""
    spec, type = graph.program.inputs[name], types.given[name]
    is_none = type.is_items and not spec.has_default
    return Input(
        name=name,
        type=replace(port_type(type), text=type.short),
        required=is_read and not spec.has_default and not is_none,
        default=[] if is_none else spec.default,
        place=place(spec.name.span),
        limits=limits,
        least=range.least,
        most=range.most,
    )


def _output(name: str, graph: ProgramGraph, types: Types) -> Output:
    ref = graph.program.outputs[name].ref
    assert ref.node is not None
    node = graph.nodes[ref.node]
    return Output(
        name=name,
        node=ref.node,
        port=ref.port,
        type=port_type(types.outputs.get((ref.node, ref.port), UNKNOWN)),
        streams=node.each or node.outputs[ref.port].streams,
        place=place(graph.program.outputs[name].name.span),
    )


def _expert(component: Component) -> Expert:
    spec, signature = component.spec, component.signature
    body: dict[str, object] = {
        "use": spec.use.text,
        "source": spec.source,
        "dtype": spec.dtype,
        "attributes": _json(component.attributes),
        "sizes": _json(component.sizes),
    }
    return Expert(
        name=spec.name.text,
        use=spec.use.text,
        role=signature.role,
        source=spec.source,
        dtype=spec.dtype,
        device=spec.device,
        attributes=_json(component.attributes),
        sizes=dict(sorted(component.sizes.items())),
        weight_bytes=weight_bytes(component),
        digest=hashlib.sha256(json.dumps(body, sort_keys=True).encode()).hexdigest(),
        place=place(spec.name.span),
    )


def _stage(stage: StageSpec) -> Stage:
    return Stage(
        path=stage.path,
        program=stage.program.text,
        card=stage.card.text,
        card_digest=stage.card_digest,
        place=place(stage.program.span),
    )


def _inner(node: Node) -> ScheduledInner | None:
    inner = node.inner
    if inner is None:
        return None
    return ScheduledInner(
        loop=inner.spec.name.text,
        kind=inner.loop.kind,
        expert=inner.component.spec.name.text,
        cache=None if inner.spec.cache is None else inner.spec.cache.text,
        attributes=_json(inner.attributes),
        feed=dict(sorted(inner.feed.items())),
        back=inner.back,
        length=inner.length,
        place=place(inner.spec.name.span),
    )


def _caches(graph: ProgramGraph, plan: Plan) -> Iterable[Cache]:
    specs = [spec for node in _scheduled(graph, plan) for spec in node.loop_specs]
    used = {spec.cache.text for spec in specs if spec.cache is not None}
    for name in sorted(used):
        spec = graph.card.caches[name]
        yield Cache(
            name=name,
            kind=spec.kind,
            max_bytes=spec.max_bytes,
            block_tokens=spec.block_tokens,
            reuse=spec.reuse,
            place=place(spec.name.span),
        )


def _node(node: Node, types: Types, plan: Plan) -> ScheduledNode:
    assert node.spec is not None
    loop, spec = node.loop, node.loop_spec
    return ScheduledNode(
        id=node.id,
        kind="loop" if loop is not None else "op",
        name=loop.kind if loop is not None else node.spec.name.text,
        loop=spec.name.text if spec is not None else None,
        expert=node.component.spec.name.text if node.component is not None else None,
        cache=spec.cache.text if spec is not None and spec.cache is not None else None,
        inner=_inner(node),
        attributes=_json(node.attributes),
        each=node.each,
        when=str(node.spec.when.value) if node.spec.when is not None else None,
        inputs=tuple(_in_port(port, node, types) for port in node.inputs.values()),
        outputs=tuple(
            Port(
                name=port.name,
                type=port_type(types.outputs.get((node.id, port.name), UNKNOWN)),
                streams=port.streams or node.each,
            )
            for port in node.outputs.values()
        ),
        units=plan.units[node.id],
        depth=plan.depths[node.id],
        place=place(node.span),
        lengths=dict(sorted(plan.bounds.lengths.get(node.id, {}).items())),
        starts_at=_seconds(plan.timeline.starts[node.id]),
        ends_at=_seconds(plan.timeline.ends[node.id]),
        state_bytes=plan.memory.state_bytes.get(node.id, 0),
    )


def _in_port(port: PortSignature, node: Node, types: Types) -> Port:
    """An input as it arrives; one that nothing feeds keeps the signature's type."""
    arriving = types.inputs.get((node.id, port.name))
    return Port(name=port.name, type=port_type(arriving or port.pattern), streams=port.streams)


def _channels(graph: ProgramGraph, types: Types, plan: Plan) -> Iterable[Channel]:
    for name in plan.order:
        orders: dict[str, int] = {}
        found = []
        for edge in graph.incoming[name]:
            port = edge.spec.target.port
            found.append((port, orders.get(port, 0), edge))
            orders[port] = orders.get(port, 0) + 1
        for _, order, edge in sorted(found, key=lambda item: item[:2]):
            yield _channel(edge, order, types, plan)


def _channel(edge: Edge, order: int, types: Types, plan: Plan) -> Channel:
    written = edge.spec.attributes
    arrow = "~>" if edge.spec.streams else "->"
    return Channel(
        id=f"{edge.spec.source} {arrow} {edge.spec.target}",
        source=str(edge.spec.source),
        node=edge.target_node,
        port=edge.spec.target.port,
        order=order,
        streams=edge.spec.streams,
        capacity=plan.memory.capacities.get(edge.key, 0),
        chunk=edge.attribute("chunk", 0),
        first_chunk=edge.attribute("first_chunk", edge.attribute("chunk", 0)),
        left_context=edge.attribute("left_context", 0),
        right_context=edge.attribute("right_context", 0),
        start=edge.attribute("start", 0),
        when_empty=_json(written["when_empty"].value) if "when_empty" in written else None,
        back_edge=_json(written["back_edge"].value) if "back_edge" in written else None,
        type=port_type(types.inputs.get((edge.target_node, edge.spec.target.port), UNKNOWN)),
        place=place(edge.spec.span),
        bytes=plan.memory.channel_bytes.get(edge.key, 0),
        limits=() if edge.source_node is None else passed(edge.spec),
    )
