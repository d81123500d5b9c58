"""What happened: one event per unit and per edge transfer, counters per node, and the Chrome trace of both."""

from __future__ import annotations

import json
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from omniflow_compiler.schedule import Node, Schedule


class UnitEvent(NamedTuple):
    """A unit ran from `start` for `seconds` (of its whole batch of `width`)."""

    start: float
    seconds: float
    request: int
    node: str
    kind: str
    item: int
    number: int
    size: int
    width: int
    cached: int  # of what it wanted, found done before
    expert: str  # the component that ran it


class TransferEvent(NamedTuple):
    """`size` elements went over an edge at `time`; an edge goes by its channel's id, an output by `output:NAME`."""

    time: float
    request: int
    edge: str
    item: int
    size: int
    ends_item: bool


class LevelEvent(NamedTuple):
    """How much waited, ran and was leased at `time`; `pools` has the open sequences of each pool, in order."""

    time: float
    waiting: int
    running: int
    pools: tuple[int, ...]


class Trace:
    """Events in order of time. Requests have the number that the engine gave them; `pools` names the pools."""

    def __init__(self, pools: Sequence[str] = ()) -> None:
        self.pools = tuple(pools)
        self.units: list[UnitEvent] = []
        self.transfers: list[TransferEvent] = []
        self.levels: list[LevelEvent] = []


@dataclass(slots=True)
class Spent:
    """Units of one kind on one component, and their share of their batches' seconds."""

    units: int = 0
    seconds: float = 0.0


@dataclass(slots=True)
class NodeCount:
    """One node of one request: what its units were and took, what left, how its loops ended.

    Times are the engine's.
    """

    spent: dict[tuple[str, str], Spent] = field(default_factory=dict)  # by component and kind
    num_units: int = 0
    cached: int = 0  # tokens (of an encoder: items) that were found done before
    emitted: dict[str, int] = field(default_factory=dict)  # elements by output port
    items: int = 0
    reasons: Counter[str] = field(default_factory=Counter)
    first: float | None = None  # when its first unit ended
    last: float | None = None

    def add(self, kind: str, expert: str, seconds: float, now: float, cached: int) -> int:
        """Counts a unit; returns its index among the node's."""
        spent = self.spent.get((expert, kind))
        if spent is None:
            spent = self.spent[expert, kind] = Spent()
        spent.units += 1
        spent.seconds += seconds
        if cached:
            self.cached += cached
        index = self.num_units
        self.num_units = index + 1
        if index == 0:
            self.first = now
        self.last = now
        return index

    @property
    def units(self) -> dict[str, int]:
        """Units by kind."""
        found: dict[str, int] = {}
        for (_, kind), spent in self.spent.items():
            found[kind] = found.get(kind, 0) + spent.units
        return found

    @property
    def seconds(self) -> float:
        """Its share of its batches' seconds."""
        return sum(spent.seconds for spent in self.spent.values())


def chrome_trace(trace: Trace, schedule: Schedule) -> str:
    """Chrome / Perfetto JSON: a process of tracks per expert (ops share one), a process of tracks per request.

    Every unit is on both; its arguments hold the node's YAML place, item, number, size and batch width. Transfers are
    marks on the request's track, with the edge's place and arrows to the unit that takes what was sent. Batch widths,
    queue and pools are counters.
    """
    nodes = {node.id: node for node in schedule.nodes}
    tracks = {expert.name: i for i, expert in enumerate(schedule.experts, 1)}
    events: list[dict[str, Any]] = [*_names(tracks, trace.units)]
    for unit in trace.units:
        events.extend(_unit_events(unit, nodes[unit.node], tracks))
    places = {channel.id: str(channel.place) for channel in schedule.channels}
    places |= {f"output:{output.name}": str(output.place) for output in schedule.outputs}
    events.extend(_transfer_event(transfer, places) for transfer in trace.transfers)
    events.extend(_arrows(trace, schedule, places))
    events.extend(_widths(trace.units))
    for level in trace.levels:
        events.extend(_counters(level, trace.pools))
    body = {"traceEvents": events, "displayTimeUnit": "ms", "otherData": {"schedule": schedule.content_hash}}
    return json.dumps(body, separators=(",", ":"))


EXPERTS, REQUESTS = 1, 2  # process ids of the two groups of tracks


def _names(tracks: Mapping[str, int], units: Sequence[UnitEvent]) -> list[dict[str, Any]]:
    names = [("process_name", EXPERTS, 0, "experts"), ("process_name", REQUESTS, 0, "requests")]
    names += [("thread_name", EXPERTS, track, expert) for expert, track in tracks.items()]
    names += [("thread_name", EXPERTS, 0, "ops")]
    names += [("thread_name", REQUESTS, r, f"request {r}") for r in sorted({unit.request for unit in units})]
    return [{"ph": "M", "name": kind, "pid": pid, "tid": tid, "args": {"name": name}} for kind, pid, tid, name in names]


def _unit_events(unit: UnitEvent, node: Node, tracks: Mapping[str, int]) -> list[dict[str, Any]]:
    track = tracks.get(unit.expert, 0) if node.kind == "loop" else 0
    args = {"place": str(node.place), "item": unit.item, "unit": unit.number, "size": unit.size, "width": unit.width}
    if unit.cached:
        args["cached"] = unit.cached
    base = {"name": f"{unit.node} {unit.kind}", "cat": unit.kind, "ph": "X", "ts": _micros(unit.start)}
    base |= {"dur": _micros(unit.seconds), "args": args | {"request": unit.request}}
    return [{**base, "pid": EXPERTS, "tid": track}, {**base, "pid": REQUESTS, "tid": unit.request}]


def _transfer_event(transfer: TransferEvent, places: Mapping[str, str]) -> dict[str, Any]:
    args = {"place": places[transfer.edge], "edge": transfer.edge, "item": transfer.item, "size": transfer.size}
    args |= {"ends_item": transfer.ends_item}
    base = {"name": transfer.edge, "cat": "transfer", "ph": "i", "s": "t", "ts": _micros(transfer.time)}
    return {**base, "pid": REQUESTS, "tid": transfer.request, "args": args}


def _arrows(trace: Trace, schedule: Schedule, places: Mapping[str, str]) -> Iterator[dict[str, Any]]:
    """An arrow per transfer on an edge, from the mark to the first unit of the reading node that starts after it."""
    readers = {channel.id: channel.node for channel in schedule.channels}
    starts: dict[tuple[int, str], list[float]] = {}
    for unit in trace.units:
        starts.setdefault((unit.request, unit.node), []).append(unit.start)
    for number, transfer in enumerate(trace.transfers):
        times = starts.get((transfer.request, readers.get(transfer.edge, "")), [])
        at = bisect_left(times, transfer.time)
        if at < len(times):
            base = {"name": transfer.edge, "cat": "edge", "id": number, "pid": REQUESTS, "tid": transfer.request}
            base["args"] = {"place": places[transfer.edge]}
            yield {**base, "ph": "s", "ts": _micros(transfer.time)}
            yield {**base, "ph": "f", "bp": "e", "ts": _micros(times[at])}


def _widths(units: Sequence[UnitEvent]) -> Iterator[dict[str, Any]]:
    """How many units each batch had, a counter per expert; back to 0 when the batch ends."""
    batches = {(unit.start, unit.expert): (unit.width, unit.seconds) for unit in units if unit.expert}
    for (start, expert), (width, seconds) in batches.items():
        base = {"ph": "C", "pid": EXPERTS, "tid": 0, "name": f"batch width of {expert}"}
        yield {**base, "ts": _micros(start), "args": {"width": width}}
        yield {**base, "ts": _micros(start + seconds), "args": {"width": 0}}


def _counters(level: LevelEvent, pools: Sequence[str]) -> Iterator[dict[str, Any]]:
    base = {"ph": "C", "pid": EXPERTS, "tid": 0, "ts": _micros(level.time)}
    yield {**base, "name": "requests", "args": {"waiting": level.waiting, "running": level.running}}
    if pools:
        yield {**base, "name": "open sequences", "args": dict(zip(pools, level.pools, strict=True))}


def _micros(seconds: float) -> float:
    return round(seconds * 1e6, 1)
