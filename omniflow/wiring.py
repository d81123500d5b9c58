"""Makes the nodes and channels of a request that starts."""

from __future__ import annotations

import sys
from collections.abc import Container, Sequence

from omniflow.agenda import Agenda
from omniflow.batcher import Readiness
from omniflow.bind import Bound
from omniflow.bounds import is_on
from omniflow.channel import ITEMS, PIECES, VALUE, Channel, Sink
from omniflow.faults import Faults
from omniflow.feedback import Feedback, initial_value
from omniflow.limited import LimitedChannel
from omniflow.node import BoundNode, NodeRun
from omniflow.request import Request
from omniflow.stream import Outlet
from omniflow.values import Value, length
from omniflow_compiler.schedule import Channel as ChannelSpec
from omniflow_compiler.schedule import Output, Schedule


def build(request: Request, bound: Bound, agenda: Agenda, faults: Faults) -> None:
    """Makes the request's nodes and channels and fills its inputs in. Nodes that `when` switches off, and
    those that lead to no output that is wanted, are not made.

    Errors: ValueError for a `when` without a value.
    """
    schedule = bound.schedule
    outputs = [output for output in schedule.outputs if output.name in request.wanted]
    request.readiness = Readiness(len(bound.nodes), {output.name: bound.leading[output.name] for output in outputs})
    nodes = bound.nodes if len(outputs) == len(schedule.outputs) else _needed(bound, outputs)
    nodes = _on(nodes, schedule, request)
    runs = request.runs = {node.spec.id: NodeRun(node, request, agenda) for node in nodes}
    request.num_open = len(runs)
    feeds: list[tuple[Channel, Value]] = []
    for run in runs.values():
        for port, specs in run.bound.inputs.items():
            fed = [spec for spec in specs if _is_fed(spec, runs)]
            if fed:
                run.inputs[port] = [_channel(spec, run, runs, feeds, request, faults) for spec in fed]
    for output in outputs:
        writer = runs.get(output.node)
        before = request.outlets.get(output.name)
        outlet = Outlet(output, request=request, writer=writer, agenda=agenda, before=before)
        request.outlets[output.name] = outlet
        if writer is None:
            outlet.end()
        else:
            writer.outputs.setdefault(output.port, []).append(outlet)
    for channel, value in feeds:
        for item, part in enumerate(value if channel.is_starred else [value]):
            channel.put(part, item, True, length(part))
        channel.end()
    for run in runs.values():
        run.wake()


def _needed(bound: Bound, outputs: Sequence[Output]) -> Sequence[BoundNode]:
    """Nodes that lead to one of the outputs, over back edges too."""
    sources: dict[str, list[str]] = {}
    for channel in bound.schedule.channels:
        sources.setdefault(channel.node, []).append(channel.source.rpartition(".")[0])
    found: set[str] = set()
    line = [output.node for output in outputs]
    while line:
        name = line.pop()
        if name not in found:
            found.add(name)
            line += sources.get(name, [])
    return [node for node in bound.nodes if node.spec.id in found]


def _on(bound: Sequence[BoundNode], schedule: Schedule, request: Request) -> list[BoundNode]:
    """Nodes that run: those whose `when` holds and that are fed on every port they need."""
    on: dict[str, BoundNode] = {}
    for node in bound:
        starved = [
            port
            for port, specs in node.inputs.items()
            if port not in node.loop.optional and not any(spec.back_edge or _is_fed(spec, on) for spec in specs)
        ]
        if not starved and is_on(node.spec, schedule, request.inputs):
            on[node.spec.id] = node
    return list(on.values())


def _is_fed(spec: ChannelSpec, on: Container[str]) -> bool:
    """Whether an edge's source is there: an input of the program always, a node when it is on."""
    source, dot, _ = spec.source.rpartition(".")
    return not dot or source in on


def _channel(
    spec: ChannelSpec,
    run: NodeRun,
    runs: dict[str, NodeRun],
    feeds: list[tuple[Channel, Value]],
    request: Request,
    faults: Faults,
) -> Channel:
    source, dot, port = spec.source.rpartition(".")
    writer = runs[source] if dot else None
    kind = LimitedChannel if spec.limits else Channel
    channel = kind(spec, mode=_mode(spec, run), reader=run, writer=writer)
    if request.generator is not None:
        channel.capacity = sys.maxsize  # its nodes start one after another, so a channel must hold all of a stream
    if writer is not None:
        sink: Sink = channel
        if spec.back_edge is not None:
            first = initial_value(spec.type, spec.back_edge["initial"])
            channel.put(first, 0, False)
            sink = Feedback(channel)
        sink = faults.before(sink, request.id) if faults.on_edges else sink
        writer.outputs.setdefault(port, []).append(sink)
    else:
        feeds.append((channel, request.inputs[port]))
    return channel


def _mode(spec: ChannelSpec, run: NodeRun) -> str:
    """How a node takes an edge: `->` into `each` is shared by its items, `~>` brings an item per lane."""
    loop, each = run.bound.loop, run.bound.spec.each
    if each and not spec.streams:
        return VALUE
    if spec.port in loop.streams:
        return ITEMS if spec.port in loop.items else PIECES
    return ITEMS if each else VALUE
