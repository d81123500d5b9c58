"""From a schedule, and perhaps a run of it, to the graph that is drawn."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

from omniflow.viz.amounts import in_bytes, in_count, in_hertz, in_percent, in_seconds
from omniflow.viz.model import Fact, Family, Graph, Group, InnerLoop, Link, LinkRun, Socket, Vertex, VertexRun
from omniflow.viz.palette import NUM_COLOURS
from omniflow.viz.run import Run
from omniflow.viz.text import shorten
from omniflow_compiler.schedule import Buffer, Channel, Expert, Input, Node, Output, Port, PortType, Schedule

TYPE_COLUMNS = 30


def build_graph(schedule: Schedule, run: Run | None = None) -> Graph:
    """The graph of `schedule`; `run` adds what was measured. Errors: DrawError when the run is of another schedule."""
    if run is not None:
        run.check_matches(schedule)
    wiring = _Wiring(schedule)
    inputs = [_input_vertex(item, wiring) for item in schedule.inputs]
    nodes = [_node_vertex(node, schedule, wiring, run) for node in schedule.nodes]
    outputs = [_output_vertex(item) for item in schedule.outputs]
    links = [_channel_link(channel, schedule, wiring, run) for channel in schedule.channels]
    links += [_output_link(item, run) for item in schedule.outputs]
    return Graph(
        program=schedule.program,
        card=schedule.card,
        schedule=schedule.content_hash,
        vertices=(*inputs, *nodes, *outputs),
        links=tuple(links),
        families=tuple(_families(schedule)),
        groups=tuple(_groups(schedule)),
        facts=tuple(_graph_facts(schedule, run)),
        measured=run is not None,
    )


class _Wiring:
    """Look-ups over the channels: which ports have an edge, and what a port's finished value weighs."""

    def __init__(self, schedule: Schedule) -> None:
        self._inputs = {item.name for item in schedule.inputs}
        self.linked: set[tuple[str, str]] = set()
        self.buffers: dict[str, Buffer] = {buffer.port: buffer for buffer in schedule.buffers}
        self.critical = frozenset(schedule.critical_path)
        self.steps = frozenset(zip(schedule.critical_path, schedule.critical_path[1:], strict=False))
        for channel in schedule.channels:
            self.linked.add(self.source(channel.source))
            self.linked.add((f"node:{channel.node}", channel.port))
        for output in schedule.outputs:
            self.linked.add((f"node:{output.node}", output.port))

    def source(self, text: str) -> tuple[str, str]:
        """Vertex id and port of `node.port` or of a program input's name."""
        if text in self._inputs:
            return f"input:{text}", ""
        node, _, port = text.rpartition(".")
        return f"node:{node}", port

    def sockets(self, node: Node, ports: tuple[Port, ...]) -> tuple[Socket, ...]:
        """The node's ports; whether an edge meets them is what a card shows."""
        return tuple(
            Socket(
                name=port.name,
                type=port_type(port.type),
                streams=port.streams,
                linked=(f"node:{node.id}", port.name) in self.linked,
            )
            for port in ports
        )


def port_type(kind: PortType) -> str:
    """The printed type with its rate."""
    if kind.rate_hz is None or "@" in kind.text:
        return kind.text
    return f"{kind.text} @ {in_hertz(kind.rate_hz)}"


def short_type(kind: PortType) -> str:
    """The type as an edge shows it: axes by their own names, without where they come from, and no vocabulary."""
    return shorten(re.sub(r"=[^,\]]*|(?<=\]) < \d+", "", port_type(kind)), TYPE_COLUMNS)


def _input_vertex(item: Input, wiring: _Wiring) -> Vertex:
    facts = [Fact(name="type", value=port_type(item.type))]
    if not item.required:
        facts.append(Fact(name="default", value=_short_json(item.default)))
    name = f"input:{item.name}"
    return Vertex(
        id=name,
        kind="input",
        stage="",
        name=item.name,
        detail=short_type(item.type) if item.required else f"{short_type(item.type)}, optional",
        expert=None,
        units=(),
        inner=None,
        each=False,
        when=None,
        inputs=(),
        outputs=(Socket(name="", type=port_type(item.type), streams=False, linked=(name, "") in wiring.linked),),
        facts=tuple(facts),
        critical=False,
        measured=None,
        place=item.place,
    )


def _output_vertex(item: Output) -> Vertex:
    return Vertex(
        id=f"output:{item.name}",
        kind="output",
        stage="",
        name=item.name,
        detail=short_type(item.type),
        expert=None,
        units=(),
        inner=None,
        each=False,
        when=None,
        inputs=(Socket(name="", type=port_type(item.type), streams=item.streams, linked=True),),
        outputs=(),
        facts=(
            Fact(name="type", value=port_type(item.type)),
            Fact(name="reads", value=f"{item.node}.{item.port}"),
            Fact(name="leaves", value="chunk by chunk" if item.streams else "when finished"),
        ),
        critical=False,
        measured=None,
        place=item.place,
    )


def _node_vertex(node: Node, schedule: Schedule, wiring: _Wiring, run: Run | None) -> Vertex:
    measured = None if run is None else run.vertex(node.id)
    stage = _stage_of(node, schedule)
    return Vertex(
        id=f"node:{node.id}",
        kind=node.kind,
        stage=stage,
        name=node.id[len(stage) + 1 :] if stage else node.id,
        detail=node.name if node.expert is None else f"{node.name} · {node.expert.removeprefix(f'{stage}/')}",
        expert=node.expert,
        units=tuple(unit.kind for unit in node.units) if node.kind == "loop" else (),
        inner=_inner_loop(node),
        each=node.each,
        when=node.when,
        inputs=wiring.sockets(node, node.inputs),
        outputs=wiring.sockets(node, node.outputs),
        facts=tuple(_node_facts(node, schedule, wiring, measured)),
        critical=node.id in wiring.critical,
        measured=measured,
        place=node.place,
    )


def _stage_of(node: Node, schedule: Schedule) -> str:
    """The innermost stage whose path the node's id starts with."""
    paths = [stage.path for stage in schedule.stages if stage.path and node.id.startswith(f"{stage.path}/")]
    return max(paths, key=len, default="")


def _groups(schedule: Schedule) -> Iterator[Group]:
    used = {_stage_of(node, schedule) for node in schedule.nodes}
    for stage in schedule.stages:
        if stage.path and stage.path in used:
            yield Group(path=stage.path, program=stage.program, card=stage.card, place=stage.place)


def _inner_loop(node: Node) -> InnerLoop | None:
    if node.inner is None:
        return None
    return InnerLoop(name=node.inner.loop, expert=node.inner.expert, length=node.inner.length)


def _node_facts(node: Node, schedule: Schedule, wiring: _Wiring, measured: VertexRun | None) -> Iterator[Fact]:
    for stage in schedule.stages:
        if stage.path and stage.path == _stage_of(node, schedule):
            yield Fact(name="stage", value=f"{stage.path}: {stage.program} on {stage.card}")
    yield Fact(name=node.kind, value=node.name)
    for expert in schedule.experts:
        if expert.name == node.expert:
            yield Fact(name="expert", value=f"{expert.name} ({expert.use}), {_expert_line(expert)}")
    if node.inner is not None:
        feed = ", ".join(f"{port} from {value}" for port, value in node.inner.feed.items())
        yield Fact(name="inner loop", value=f"{node.inner.loop}: {node.inner.kind} on {node.inner.expert}")
        yield Fact(name="inner units", value=f"{in_count(node.inner.length)} per outer step")
        yield Fact(name="inner reads", value=f"{feed}; gives back {node.inner.back}")
    if node.cache is not None:
        yield Fact(name="cache", value=_cache_line(node.cache, schedule))
    if node.each:
        yield Fact(name="each", value="runs once per item of its streams")
    if node.when is not None:
        yield Fact(name="when", value=node.when)
    for unit in node.units:
        total = in_seconds(unit.expected * unit.seconds)
        cost = f"{in_count(unit.expected)} × {in_seconds(unit.seconds)} = {total} predicted"
        yield Fact(name=unit.kind, value=cost)
    if measured is not None:
        yield Fact(name="measured", value=_measured_line(measured))
    for name, value in node.attributes.items():
        yield Fact(name=name, value=_short_json(value))
    for port in node.outputs:
        if (buffer := wiring.buffers.get(f"{node.id}.{port.name}")) is not None:
            yield Fact(name=f"buffer {port.name}", value=_buffer_line(buffer, schedule))
    for memory in schedule.memory:
        if memory.at < len(schedule.nodes) and schedule.nodes[memory.at].id == node.id:
            yield Fact(name="memory", value=f"peak of {in_bytes(memory.peak_bytes)} on {memory.device} is here")


def _measured_line(measured: VertexRun) -> str:
    units = f"{in_count(measured.units)} {'unit' if measured.units == 1 else 'units'}"
    line = f"{in_seconds(measured.seconds)}, {in_percent(measured.share)} of the busy time, {units}"
    if measured.first is None or measured.last is None:
        return line
    return f"{line}; first after {in_seconds(measured.first)}, last after {in_seconds(measured.last)}"


def _channel_link(channel: Channel, schedule: Schedule, wiring: _Wiring, run: Run | None) -> Link:
    source, source_port = wiring.source(channel.source)
    measured = None if run is None else run.port(source.removeprefix("node:"), source_port)
    return Link(
        id=channel.id,
        source=source,
        source_port=source_port,
        target=f"node:{channel.node}",
        target_port=channel.port,
        streams=channel.streams,
        back=channel.back_edge is not None,
        type=short_type(channel.type),
        policy=_policy(channel),
        facts=tuple(_channel_facts(channel, schedule, wiring, measured)),
        critical=(source.removeprefix("node:"), channel.node) in wiring.steps and source.startswith("node:"),
        measured=measured,
        place=channel.place,
    )


def _policy(channel: Channel) -> str:
    parts = []
    if channel.chunk:
        first = f"{channel.first_chunk} then " if channel.first_chunk not in (0, channel.chunk) else ""
        parts.append(f"chunk {first}{channel.chunk}")
    if channel.left_context or channel.right_context:
        parts.append(f"ctx {channel.left_context}+{channel.right_context}")
    if channel.start:
        parts.append(f"from {channel.start}")
    if channel.when_empty is not None:
        parts.append("hold when empty")
    return " · ".join(parts)


def _channel_facts(channel: Channel, schedule: Schedule, wiring: _Wiring, measured: LinkRun | None) -> Iterator[Fact]:
    yield Fact(name="carries", value=port_type(channel.type))
    yield Fact(name="hands on", value="chunks, as they come" if channel.streams else "the finished value")
    if channel.streams:
        yield Fact(name="capacity", value=f"{in_count(channel.capacity)} elements")
    if channel.chunk:
        yield Fact(name="chunk", value=f"{channel.chunk} elements, the first {channel.first_chunk or channel.chunk}")
    if channel.left_context or channel.right_context:
        yield Fact(name="context", value=f"{channel.left_context} left, {channel.right_context} right")
    if channel.start:
        yield Fact(name="start", value=f"drops the first {channel.start} elements")
    if channel.when_empty is not None:
        yield Fact(name="when empty", value=_short_json(channel.when_empty))
    if channel.back_edge is not None:
        yield Fact(name="back edge", value=_short_json(channel.back_edge))
    if (buffer := wiring.buffers.get(channel.source)) is not None:
        yield Fact(name="buffer", value=_buffer_line(buffer, schedule))
    if measured is not None:
        yield Fact(name="measured", value=f"{in_count(measured.elements)} elements")


def _output_link(item: Output, run: Run | None) -> Link:
    measured = None if run is None else run.output(item.name)
    facts = [Fact(name="carries", value=port_type(item.type))]
    if measured is not None:
        facts.append(Fact(name="measured", value=f"{in_count(measured.elements)} elements"))
    return Link(
        id=f"output:{item.name}",
        source=f"node:{item.node}",
        source_port=item.port,
        target=f"output:{item.name}",
        target_port="",
        streams=item.streams,
        back=False,
        type=short_type(item.type),
        policy="",
        facts=tuple(facts),
        critical=False,
        measured=measured,
        place=item.place,
    )


def _families(schedule: Schedule) -> Iterator[Family]:
    """Experts in the order of their first use, so that neighbours on the graph are neighbours in the palette."""
    named = [name for node in schedule.nodes for name in (node.expert, node.inner and node.inner.expert)]
    ordered = sorted(schedule.experts, key=lambda expert: (*named, expert.name).index(expert.name))
    for number, expert in enumerate(ordered):
        facts = [Fact(name="uses", value=expert.use), Fact(name="role", value=expert.role)]
        facts.append(Fact(name="runs", value=_expert_line(expert)))
        if expert.source is not None:
            facts.append(Fact(name="weights from", value=expert.source))
        facts += [Fact(name=name, value=_short_json(value)) for name, value in expert.attributes.items()]
        facts += [Fact(name=name, value=in_count(size)) for name, size in expert.sizes.items()]
        colour = number % NUM_COLOURS
        yield Family(name=expert.name, use=expert.use, colour=colour, facts=tuple(facts), place=expert.place)


def _graph_facts(schedule: Schedule, run: Run | None) -> Iterator[Fact]:
    yield Fact(name="card", value=schedule.card)
    if schedule.capabilities:
        yield Fact(name="capabilities", value=", ".join(schedule.capabilities))
    yield Fact(name="predicted", value=f"{in_seconds(schedule.critical_seconds)} on the critical path")
    if run is not None:
        other = "" if run.schedule == schedule.content_hash else ", of another version of the program"
        yield Fact(name="measured", value=f"{in_seconds(run.seconds)}, {run.state}{other}")
    for memory in schedule.memory:
        line = f"{in_bytes(memory.peak_bytes)} peak on {memory.device}"
        if memory.budget_bytes is not None:
            line += f", budget {in_bytes(memory.budget_bytes)}"
        yield Fact(name="memory", value=line)
        for holder in memory.holders[:8]:
            yield Fact(name=f"· {holder.kind}", value=f"{holder.name}, {in_bytes(holder.bytes)}")
    if schedule.content_hash:
        yield Fact(name="schedule", value=schedule.content_hash)


def _expert_line(expert: Expert) -> str:
    weights = f", weights {in_bytes(expert.weight_bytes)}" if expert.weight_bytes else ""
    return f"{expert.dtype} on {expert.device}{weights}"


def _cache_line(name: str, schedule: Schedule) -> str:
    for cache in schedule.caches:
        if cache.name == name:
            return f"{name}: {cache.kind}, {in_bytes(cache.max_bytes)}, blocks of {cache.block_tokens} tokens"
    return name


def _buffer_line(buffer: Buffer, schedule: Schedule) -> str:
    last = schedule.nodes[buffer.last_use].id if buffer.last_use < len(schedule.nodes) else "the end"
    return f"{in_bytes(buffer.bytes)}, held until {last}"


def _short_json(value: object) -> str:
    return shorten(json.dumps(value, ensure_ascii=False, sort_keys=True), 80)
