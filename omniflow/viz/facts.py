"""The lines of tooltips and of the side panel: costs, buffers, caches, policies, places in memory, measurements."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping

from omniflow.viz.amounts import in_bytes, in_count, in_hertz, in_percent, in_seconds
from omniflow.viz.model import Fact, LinkRun, VertexRun
from omniflow.viz.run import Run
from omniflow.viz.text import shorten
from omniflow_compiler.schedule import Buffer, Channel, Expert, Node, PortType, Schedule

TYPE_COLUMNS = 30


def port_type(kind: PortType) -> str:
    """The printed type with its rate."""
    if kind.rate_hz is None or "@" in kind.text:
        return kind.text
    return f"{kind.text} @ {in_hertz(kind.rate_hz)}"


def short_type(kind: PortType) -> str:
    """The type as an edge shows it: axes by their own names, without where they come from, and no vocabulary."""
    return shorten(re.sub(r"=[^,\]]*|(?<=\]) < \d+", "", port_type(kind)), TYPE_COLUMNS)


def stage_of(node: Node, schedule: Schedule) -> str:
    """The innermost stage whose path the node's id starts with."""
    paths = [stage.path for stage in schedule.stages if stage.path and node.id.startswith(f"{stage.path}/")]
    return max(paths, key=len, default="")


def node_facts(
    node: Node, schedule: Schedule, buffers: Mapping[str, Buffer], measured: VertexRun | None
) -> Iterator[Fact]:
    """Everything known about a node, in reading order."""
    yield from _binding_facts(node, schedule)
    for unit in node.units:
        total = in_seconds(unit.expected * unit.seconds)
        cost = f"{in_count(unit.expected)} × {in_seconds(unit.seconds)} = {total} predicted"
        yield Fact(name=unit.kind, value=cost if unit.expert is None else f"{cost}, on {unit.expert}")
    if node.ends_at > 0:
        yield Fact(name="runs", value=f"{in_seconds(node.starts_at)} to {in_seconds(node.ends_at)} predicted")
    if node.state_bytes:
        yield Fact(name="state", value=f"{in_bytes(node.state_bytes)} a request")
    if measured is not None:
        yield Fact(name="measured", value=_measured_line(measured))
    for name, value in node.attributes.items():
        yield Fact(name=name, value=short_json(value))
    for port in node.outputs:
        if (buffer := buffers.get(f"{node.id}.{port.name}")) is not None:
            yield Fact(name=f"buffer {port.name}", value=_buffer_line(buffer, schedule))
    for memory in schedule.memory:
        if memory.at < len(schedule.nodes) and schedule.nodes[memory.at].id == node.id:
            yield Fact(name="memory", value=f"peak of {in_bytes(memory.peak_bytes)} on {memory.device} is here")


def _binding_facts(node: Node, schedule: Schedule) -> Iterator[Fact]:
    for stage in schedule.stages:
        if stage.path and stage.path == stage_of(node, schedule):
            yield Fact(name="stage", value=f"{stage.path}: {stage.program} on {stage.card}")
    yield Fact(name=node.kind, value=node.name)
    for expert in schedule.experts:
        if expert.name == node.expert:
            yield Fact(name="expert", value=f"{expert.name} ({expert.use}), {expert_line(expert)}")
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


def _measured_line(measured: VertexRun) -> str:
    units = f"{in_count(measured.units)} {'unit' if measured.units == 1 else 'units'}"
    line = f"{in_seconds(measured.seconds)}, {in_percent(measured.share)} of the busy time, {units}"
    if measured.first is None or measured.last is None:
        return line
    return f"{line}; first after {in_seconds(measured.first)}, last after {in_seconds(measured.last)}"


def cut_policy(channel: Channel) -> str:
    """How a stream is cut for its reader, short enough for a label; empty when it is handed on as it comes."""
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


def channel_facts(
    channel: Channel, schedule: Schedule, buffers: Mapping[str, Buffer], measured: LinkRun | None
) -> Iterator[Fact]:
    """Everything known about an edge, in reading order."""
    yield Fact(name="carries", value=port_type(channel.type))
    yield Fact(name="hands on", value="chunks, as they come" if channel.streams else "the finished value")
    if channel.streams:
        held = f", {in_bytes(channel.bytes)} when full" if channel.bytes else ""
        yield Fact(name="capacity", value=f"{in_count(channel.capacity)} elements{held}")
    if channel.chunk:
        yield Fact(name="chunk", value=f"{channel.chunk} elements, the first {channel.first_chunk or channel.chunk}")
    if channel.left_context or channel.right_context:
        yield Fact(name="context", value=f"{channel.left_context} left, {channel.right_context} right")
    if channel.start:
        yield Fact(name="start", value=f"drops the first {channel.start} elements")
    if channel.when_empty is not None:
        yield Fact(name="when empty", value=short_json(channel.when_empty))
    if channel.back_edge is not None:
        yield Fact(name="back edge", value=short_json(channel.back_edge))
    if (buffer := buffers.get(channel.source)) is not None:
        yield Fact(name="buffer", value=_buffer_line(buffer, schedule))
    if measured is not None:
        yield Fact(name="measured", value=f"{in_count(measured.elements)} elements")


def graph_facts(schedule: Schedule, run: Run | None) -> Iterator[Fact]:
    """What is known about the program as a whole."""
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


def expert_line(expert: Expert) -> str:
    """Where an expert runs and what it weighs."""
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


def short_json(value: object) -> str:
    """A value as JSON of at most 80 columns."""
    return shorten(json.dumps(value, ensure_ascii=False, sort_keys=True), 80)
