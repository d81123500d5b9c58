"""A node of one request: its lanes (an item in work each), when they start, and how what they give leaves in order."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from omniflow.agenda import Agenda
from omniflow.channel import VALUE, Channel, Sink
from omniflow.loops.base import Emit, Loop, Start, Stream, Unit
from omniflow.rng import Source
from omniflow.trace import NodeCount, Trace, TransferEvent
from omniflow.values import Value, is_starred, length
from omniflow_compiler.schedule import Channel as ChannelSpec
from omniflow_compiler.schedule import Node

if TYPE_CHECKING:
    from omniflow.request import Request


@dataclass(frozen=True, slots=True, kw_only=True)
class BoundNode:
    """A node of a loaded schedule with its loop, its expert, and the edges at its ports."""

    index: int  # in the schedule
    downstream: int  # the nodes behind it, as bits by index
    spec: Node
    place: str  # of its spec, as it is written in records
    loop: Loop[Any]
    expert: Any
    inputs: Mapping[str, tuple[ChannelSpec, ...]]
    wanted: frozenset[str]
    starred: frozenset[str]  # output ports that carry items
    onward: frozenset[str]  # nodes behind it, and itself, that remember from turn to turn
    is_early: bool  # only ops and encoders come before it: values that do not suit it are what was asked for


class Lane:
    """One item of one node in work; nodes without `each` have a single one."""

    __slots__ = (
        "has_news", "has_room", "held", "is_over", "is_queued", "item", "node", "num_stuck", "state", "unit",
        "waits_on",
    )  # fmt: skip

    def __init__(self, node: NodeRun, item: int) -> None:
        self.node = node
        self.item = item
        self.state: Any = None
        self.unit: Unit | None = None
        self.waits_on: str | None = None
        self.has_news = False  # something came while its unit was out
        self.has_room = False  # it has had a unit, and nobody has taken the room in its expert's cache since
        self.is_queued = False
        self.is_over = False
        self.num_stuck = 0  # calls that have not come back, each of which may still touch its state
        self.held: list[Emit] = []  # what must leave after earlier items

    @property
    def is_stuck(self) -> bool:
        """Whether what it holds must stay as it is."""
        return self.num_stuck > 0


class NodeRun:
    """One node of one request. Lanes of an `each` node may be in work together; what they emit leaves in item order."""

    __slots__ = (
        "agenda", "bound", "count", "each", "head", "inputs", "is_finished", "is_queued", "lanes", "next_item",
        "num_full", "out_item", "outputs", "parked", "request",
    )  # fmt: skip

    def __init__(self, bound: BoundNode, request: Request, agenda: Agenda) -> None:
        self.bound = bound
        self.request = request
        self.agenda = agenda
        self.each = bound.spec.each
        self.inputs: dict[str, list[Channel]] = {}
        self.outputs: dict[str, list[Sink]] = {}
        self.lanes: dict[int, Lane] = {}
        self.parked: list[Lane] = []  # wait for room in an outgoing channel
        self.next_item = 0
        self.head = 0  # the item whose pieces may leave
        self.num_full = 0
        self.out_item: dict[str, int] = {}
        self.is_queued = False
        self.is_finished = False
        self.count = NodeCount()

    # -- being told ------------------------------------------------------------------------------------------------

    def on_item(self, item: int) -> None:
        lane = self.lanes.get(item if self.each else 0)
        if lane is not None:
            self.wake_lane(lane)
        else:
            self.wake()

    def on_end(self) -> None:
        for lane in self.lanes.values():
            self.wake_lane(lane)
        self.wake()

    def on_full(self) -> None:
        self.num_full += 1

    def on_room(self) -> None:
        self.num_full -= 1
        if self.num_full == 0:
            parked, self.parked = self.parked, []
            for lane in parked:
                self.wake_lane(lane)
            self.wake()

    def wake(self) -> None:
        if not self.is_queued and not self.is_finished:
            self.is_queued = True
            self.agenda.nodes.append(self)

    def wake_lane(self, lane: Lane) -> None:
        if lane.unit is not None:
            lane.has_news = True
        elif not lane.is_queued and not lane.is_over:
            lane.is_queued = True
            self.agenda.lanes.append(lane)

    # -- starting --------------------------------------------------------------------------------------------------

    def open_lanes(self) -> None:
        """Starts every item that can start. Errors: ValueError when item streams that belong together differ."""
        if not self.each and self.next_item:
            return
        waits_for_all = self.request.generator is not None  # so that draws are made node after node
        for channels in self.inputs.values():
            for ch in channels:
                if not ch.is_ended and (waits_for_all or ch.mode == VALUE):
                    return
        if not self.each:
            self._open(0)
            return
        while self.num_full == 0 and self.next_item < self.head + self.bound.loop.lanes and self._has_next():
            self._open(self.next_item)

    def _has_next(self) -> bool:
        streams = [ch for chs in self.inputs.values() for ch in chs if ch.mode != VALUE]
        have = [ch.has_item(self.next_item) for ch in streams]
        if any(have) and not all(have):
            for ch, has in zip(streams, have, strict=True):
                if not has and ch.is_ended:
                    raise ValueError(f"port {ch.spec.port} has {self.next_item} items, and another port has more")
        return bool(have) and all(have)

    def has_begun_all(self) -> bool:
        """Whether no item is left to begin."""
        if not self.each:
            return self.next_item > 0
        streams = [ch for chs in self.inputs.values() for ch in chs if ch.mode != VALUE]
        return all(ch.is_ended and self.next_item not in ch.items for ch in streams)

    def _open(self, item: int) -> None:
        lane, spec = Lane(self, item), self.bound.spec
        values, streams = self._collect(item)
        self.next_item = item + 1
        lane.state = self.bound.loop.init(
            Start(
                values=values,
                streams=streams,
                params=self.request.params_of(spec),
                rng=Source(self.request.seed_of(spec), spec.id, item, shared=self.request.generator),
                wanted=self.bound.wanted,
                bound=self.request.bound_of(spec) if spec.lengths else None,
                rollout=self.request.rollout,
                owner=self.request.id,
                gathers=self._num_gathered(),
                memory=self.request.memory_of(self.bound.spec),
                goes_on=self.request.goes_on(self.bound.onward),
            )
        )
        self.lanes[item] = lane  # only now is there a state to release
        self.wake_lane(lane)

    def _num_gathered(self) -> int:
        """Caches of this node's expert that the request hands on; counted where this is one of them."""
        expert = self.bound.expert
        if "kv" not in self.bound.wanted:
            return 0
        return sum("kv" in run.bound.wanted and run.bound.expert is expert for run in self.request.nodes)

    def _collect(self, item: int) -> tuple[dict[str, Value], dict[str, Stream]]:
        values: dict[str, Value] = {}
        streams: dict[str, Stream] = {}
        loop = self.bound.loop
        for port, channels in self.inputs.items():
            channel = channels[0]
            if channel.mode == VALUE:
                values[port] = tuple(ch.value() for ch in channels) if port in loop.variadic else channel.value()
            elif port in loop.streams:
                streams[port] = Stream(port, channel, item, walks=channel.is_starred and not self.each)
            else:
                values[port] = channel.take_item(item)
        return values, streams

    # -- emitting --------------------------------------------------------------------------------------------------

    def emit(self, lane: Lane, emits: Sequence[Emit]) -> None:
        """Sends pieces on, or holds them while an earlier item is in work."""
        if self.each and lane.item != self.head:
            lane.held.extend(emits)
            return
        emitted = self.count.emitted
        for port, data, ends_item, ends_port in emits:
            size = len(data) if type(data) is str else length(data)
            emitted[port] = emitted.get(port, 0) + size
            outputs = self.outputs.get(port)
            if outputs is None:
                continue
            item = lane.item if self.each else 0 if port not in self.bound.starred else self._place(port, ends_item)
            for output in outputs:
                output.put(data, item, ends_item, size)
            if self.agenda.trace is not None:
                self._trace(self.agenda.trace, outputs, item, size, ends_item)
            if ends_port and not self.each:
                for output in outputs:
                    output.end()

    def _place(self, port: str, ends_item: bool) -> int:
        """The item of a starred port that a piece belongs to."""
        item = self.out_item.get(port, 0)
        if ends_item:
            self.out_item[port] = item + 1
        return item

    def _trace(self, trace: Trace, outputs: Sequence[Sink], item: int, size: int, ends_item: bool) -> None:
        for output in outputs:
            event = TransferEvent(self.agenda.clock, self.request.id, output.id, item, size, ends_item)
            trace.transfers.append(event)

    def close_lane(self, lane: Lane) -> None:
        """An item is through: later ones that are through as well leave behind it, and the next may flow."""
        lane.is_over = True
        self.count.items += 1
        if not self.each:
            del self.lanes[lane.item]
            return
        while (head := self.lanes.get(self.head)) is not None:
            held, head.held = head.held, []
            self.emit(head, held)
            if not head.is_over:
                return
            for outputs in self.outputs.values():
                for output in outputs:
                    output.put(None, head.item, True, 0)
            del self.lanes[self.head]
            self.head += 1

    @property
    def may_hold_cache(self) -> bool:
        """Whether a sequence of its expert has room for it, or a cache that it has handed on."""
        hands_on = "kv" in self.bound.wanted and self.count.num_units > 0
        return hands_on or any(lane.has_room for lane in self.lanes.values())

    def note(self, lane: Lane) -> None:
        """Keeps an item's behaviour record for the request."""
        record = self.bound.loop.behaviour(lane.state) if self.request.rollout else None
        if record is not None:
            self.request.behaviour.setdefault(self.bound.spec.id, []).append(record)

    def remember(self, lane: Lane) -> None:
        """Keeps what the next turn of the session may go on from."""
        if self.request.session is not None and self.bound.spec.id in self.bound.onward:
            memory = self.bound.loop.remember(lane.state)
            if memory is not None:
                self.request.memories[self.bound.spec.id] = memory

    def finish(self) -> None:
        """All is out: ends every outgoing channel and lets go of the incoming ones."""
        self.is_finished = True
        for outputs in self.outputs.values():
            for output in outputs:
                output.end()
        self.let_go()

    def stop(self) -> None:
        """The request ends before the node does: nothing of it stays."""
        self.is_finished = True
        self.lanes.clear()
        self.parked.clear()
        self.let_go()

    def let_go(self) -> None:
        """Frees what is held on the way in."""
        for channels in self.inputs.values():
            for channel in channels:
                channel.close()


def expert_of(unit: Unit) -> str:
    """The name of the component that runs a unit: the node's, or that of the loop inside it; empty without one."""
    spec: Node = unit.lane.node.bound.spec
    inside = unit.expert is not None and spec.inner is not None
    return (spec.inner.expert if inside and spec.inner is not None else spec.expert) or ""


def starred_ports(node: Node) -> frozenset[str]:
    """Output ports whose type has an item axis."""
    return frozenset(port.name for port in node.outputs if is_starred(port.type))
