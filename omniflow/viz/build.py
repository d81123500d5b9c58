"""From a schedule, and perhaps a run of it, to the graph that is drawn."""

from __future__ import annotations

from collections.abc import Iterator

from omniflow.viz.amounts import in_count
from omniflow.viz.facts import (
    channel_facts,
    cut_policy,
    expert_line,
    graph_facts,
    node_facts,
    port_type,
    short_json,
    short_type,
    stage_of,
)
from omniflow.viz.model import Fact, Family, Graph, Group, InnerLoop, Link, Socket, Vertex
from omniflow.viz.palette import NUM_COLOURS
from omniflow.viz.run import Run
from omniflow_compiler.schedule import Buffer, Channel, Input, Node, Output, Port, Schedule


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
        facts=tuple(graph_facts(schedule, run)),
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


def _input_vertex(item: Input, wiring: _Wiring) -> Vertex:
    facts = [Fact(name="type", value=port_type(item.type))]
    if not item.required:
        facts.append(Fact(name="default", value=short_json(item.default)))
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
    stage = stage_of(node, schedule)
    return Vertex(
        id=f"node:{node.id}",
        kind=node.kind,
        stage=stage,
        name=node.id[len(stage) + 1 :] if stage else node.id,
        detail=node.name if node.expert is None else f"{node.name} · {node.expert.removeprefix(f'{stage}/')}",
        expert=node.expert,
        units=tuple(unit.kind for unit in node.units if unit.expert is None) if node.kind == "loop" else (),
        inner=_inner_loop(node),
        each=node.each,
        when=node.when,
        inputs=wiring.sockets(node, node.inputs),
        outputs=wiring.sockets(node, node.outputs),
        facts=tuple(node_facts(node, schedule, wiring.buffers, measured)),
        critical=node.id in wiring.critical,
        measured=measured,
        place=node.place,
    )


def _groups(schedule: Schedule) -> Iterator[Group]:
    used = {stage_of(node, schedule) for node in schedule.nodes}
    for stage in schedule.stages:
        if stage.path and stage.path in used:
            yield Group(path=stage.path, program=stage.program, card=stage.card, place=stage.place)


def _inner_loop(node: Node) -> InnerLoop | None:
    if node.inner is None:
        return None
    return InnerLoop(name=node.inner.loop, expert=node.inner.expert, length=node.inner.length)


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
        policy=cut_policy(channel),
        facts=tuple(channel_facts(channel, schedule, wiring.buffers, measured)),
        critical=(source.removeprefix("node:"), channel.node) in wiring.steps and source.startswith("node:"),
        measured=measured,
        place=channel.place,
    )


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
        facts.append(Fact(name="runs", value=expert_line(expert)))
        if expert.source is not None:
            facts.append(Fact(name="weights from", value=expert.source))
        facts += [Fact(name=name, value=short_json(value)) for name, value in expert.attributes.items()]
        facts += [Fact(name=name, value=in_count(size)) for name, size in expert.sizes.items()]
        colour = number % NUM_COLOURS
        yield Family(name=expert.name, use=expert.use, colour=colour, facts=tuple(facts), place=expert.place)
