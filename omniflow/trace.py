"""What happened: one event per unit and per edge transfer, counters per node, and the Chrome trace of both."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
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


class TransferEvent(NamedTuple):
    """`size` elements went over an edge at `time`; an edge goes by its channel's id, an output by `output:NAME`."""

    time: float
    request: int
    edge: str
    item: int
    size: int
    ends_item: bool


class Trace:
    """Events in order of time. Requests have the number that the engine gave them."""

    def __init__(self) -> None:
        self.units: list[UnitEvent] = []
        self.transfers: list[TransferEvent] = []


@dataclass(slots=True)
class NodeCount:
    """One node of one request: units by kind, its share of their batches' seconds, what left, how its loops ended.

    Times are the engine's.
    """

    units: Counter[str] = field(default_factory=Counter)
    num_units: int = 0
    seconds: float = 0.0
    emitted: dict[str, int] = field(default_factory=dict)  # elements by output port
    items: int = 0
    reasons: Counter[str] = field(default_factory=Counter)
    first: float | None = None  # when its first unit ended
    last: float | None = None

    def add(self, kind: str, seconds: float, now: float) -> int:
        """Counts a unit; returns its index among the node's."""
        index = self.num_units
        self.num_units = index + 1
        self.units[kind] += 1
        self.seconds += seconds
        if index == 0:
            self.first = now
        self.last = now
        return index


def chrome_trace(trace: Trace, schedule: Schedule) -> str:
    """Chrome / Perfetto JSON: a process of tracks per expert (ops share one), a process of tracks per request.

    Every unit is on both; its arguments hold the node's YAML place, item, index, size and batch width. Transfers are
    flow arrows from the producer's last unit to the consumer's next.
    """
    nodes = {node.id: node for node in schedule.nodes}
    tracks = {expert.name: i for i, expert in enumerate(schedule.experts, 1)}
    events: list[dict[str, Any]] = [*_names(tracks, trace.units)]
    for unit in trace.units:
        events.extend(_unit_events(unit, nodes[unit.node], tracks))
    events.extend(_transfer_event(transfer) for transfer in trace.transfers)
    body = {"traceEvents": events, "displayTimeUnit": "ms", "otherData": {"schedule": schedule.content_hash}}
    return json.dumps(body, separators=(",", ":"))


EXPERTS, REQUESTS = 1, 2  # process ids of the two groups of tracks


def _names(tracks: dict[str, int], units: Sequence[UnitEvent]) -> list[dict[str, Any]]:
    names = [("process_name", EXPERTS, 0, "experts"), ("process_name", REQUESTS, 0, "requests")]
    names += [("thread_name", EXPERTS, track, expert) for expert, track in tracks.items()]
    names += [("thread_name", EXPERTS, 0, "ops")]
    names += [("thread_name", REQUESTS, r, f"request {r}") for r in sorted({unit.request for unit in units})]
    return [{"ph": "M", "name": kind, "pid": pid, "tid": tid, "args": {"name": name}} for kind, pid, tid, name in names]


def _unit_events(unit: UnitEvent, node: Node, tracks: dict[str, int]) -> list[dict[str, Any]]:
    track = tracks.get(node.expert or "", 0) if node.kind == "loop" else 0
    args = {"place": str(node.place), "item": unit.item, "unit": unit.number, "size": unit.size, "width": unit.width}
    base = {"name": f"{unit.node} {unit.kind}", "cat": unit.kind, "ph": "X", "ts": _micros(unit.start)}
    base |= {"dur": _micros(unit.seconds), "args": args | {"request": unit.request}}
    return [{**base, "pid": EXPERTS, "tid": track}, {**base, "pid": REQUESTS, "tid": unit.request}]


def _transfer_event(transfer: TransferEvent) -> dict[str, Any]:
    args = {"edge": transfer.edge, "item": transfer.item, "size": transfer.size, "ends_item": transfer.ends_item}
    place = {"pid": REQUESTS, "tid": transfer.request}
    return {
        "name": transfer.edge,
        "cat": "transfer",
        "ph": "i",
        "s": "t",
        "ts": _micros(transfer.time),
        "args": args,
        **place,
    }


def _micros(seconds: float) -> float:
    return round(seconds * 1e6, 1)
