"""Faults on purpose, for tests of what happens then: refused outside the test profile.

A fault strikes a node at its unit number n (`raise`, `nan`, `hang`, `wrong_shape`, `oom`) or an edge at its piece
number n (`drop`, `delay`, `duplicate`, `empty`, `error`), in one request or in all.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from omniflow.channel import Sink
from omniflow.errors import BindError
from omniflow.loops.base import BadResult, Result, Unit
from omniflow.values import Value, cut
from omniflow_compiler.schedule import Schedule

NODE_KINDS = frozenset({"raise", "nan", "hang", "wrong_shape", "oom"})
EDGE_KINDS = frozenset({"drop", "delay", "duplicate", "empty", "error"})
AFTERWARDS = {"nan": "values that are not numbers", "wrong_shape": "a result of the wrong shape"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """One fault. at: a node's id, or an edge's (`a.x ~> b.y`); number: of the unit or piece; request: None for all."""

    at: str
    kind: str
    number: int = 0
    request: int | None = None


class InjectedFault(RuntimeError):
    """What an injected fault raises."""


class Faults:
    """The faults of an engine, by where they strike."""

    def __init__(self, faults: Iterable[Fault] = ()) -> None:
        self.on_nodes: dict[tuple[str, int], list[Fault]] = {}
        self.on_edges: dict[tuple[str, int], list[Fault]] = {}
        self._numbers: dict[int, int] = {}  # of the batch's units among their nodes' units, by identity
        for fault in faults:
            table = self.on_nodes if fault.kind in NODE_KINDS else self.on_edges
            table.setdefault((fault.at, fault.number), []).append(fault)

    def before(self, channel: Sink, request: int) -> Sink:
        """The channel, behind what its edge's faults do in this request."""
        kinds = {
            number: fault.kind
            for (at, number), faults in self.on_edges.items()
            for fault in faults
            if at == channel.id and fault.request in (None, request)
        }
        return FaultyEdge(channel, kinds) if kinds else channel

    def number(self, units: Sequence[Unit]) -> None:
        """A batch begins: its units count as they will in the record, also when they have to run row by row."""
        self._numbers = {}
        next_of: dict[int, int] = {}
        for unit in units:
            run = unit.lane.node
            number = self._numbers[id(unit)] = next_of.get(id(run), run.count.num_units)
            next_of[id(run)] = number + 1

    def strike(self, units: Sequence[Unit], unit_seconds: float | None) -> None:
        """Raises, or hangs, when one of the units is to. Errors: InjectedFault, MemoryError."""
        for unit in units:
            for fault in self._of(unit):
                if fault.kind == "raise":
                    raise InjectedFault("raised on purpose")
                if fault.kind == "oom":
                    raise MemoryError("out of memory on purpose")
                if fault.kind == "hang":
                    time.sleep(unit_seconds or 0.0)
                    raise InjectedFault(f"no answer within {unit_seconds or 0.0:g} s, on purpose")

    def spoil(self, units: Sequence[Unit], results: Sequence[Result]) -> list[Result | BadResult]:
        """The results with those that are to be wrong replaced."""
        spoiled = list(results)
        for i, unit in enumerate(units):
            for fault in self._of(unit):
                if fault.kind in AFTERWARDS:
                    spoiled[i] = BadResult(f"{AFTERWARDS[fault.kind]}, on purpose")
        return spoiled

    def _of(self, unit: Unit) -> Iterator[Fault]:
        run = unit.lane.node
        for fault in self.on_nodes.get((run.bound.spec.id, self._numbers[id(unit)]), ()):
            if fault.request in (None, run.request.id):
                yield fault


class FaultyEdge:
    """Stands before the channels of an edge and does to pieces what the edge's faults say."""

    def __init__(self, channel: Sink, faults: Mapping[int, str]) -> None:
        self.channel = channel
        self.faults = faults  # by piece number
        self.id = channel.id
        self.count = 0
        self.late: list[tuple[Value, int, bool, int]] = []

    @property
    def is_full(self) -> bool:
        """Whether the channel behind it is."""
        return self.channel.is_full

    def put(self, data: Value, item: int, ends_item: bool, size: int) -> None:
        """A piece, or what its fault makes of it. Errors: InjectedFault for `error`."""
        kind = self.faults.get(self.count) if data is not None else None
        self.count += data is not None
        if kind == "error":
            raise InjectedFault(f"edge {self.id} failed on purpose")
        if self.late and self.late[0][1] != item:
            self._deliver_late()
        if kind == "delay" and not ends_item:
            self.late.append((data, item, ends_item, size))
            return
        if kind == "empty":
            data, size = cut(data, 0, 0), 0
        if kind == "drop":
            data = None
        if kind == "duplicate":
            self.channel.put(data, item, False, size)
        if ends_item:
            self._deliver_late()
        if data is not None or ends_item:
            self.channel.put(data, item, ends_item, size)
        self._deliver_late()

    def end(self) -> None:
        """What is late comes before the end."""
        self._deliver_late()
        self.channel.end()

    def _deliver_late(self) -> None:
        late, self.late = self.late, []
        for piece in late:
            self.channel.put(*piece)


def read_faults(
    written: Sequence[Mapping[str, Any]], schedule: Schedule, *, profile: str, unit_seconds: float | None
) -> Faults:
    """Faults as a test profile writes them: `{at, kind, number, request}` each.

    Errors: BindError outside the test profile, for a fault that names nothing of the schedule, or for a hang that
    nothing would ever end.
    """
    if written and profile != "test":
        raise BindError(f"faults are for profile test, not for {profile}")
    nodes, edges = {node.id for node in schedule.nodes}, {channel.id for channel in schedule.channels}
    faults = []
    for entry in written:
        unknown = entry.keys() - {"at", "kind", "number", "request"}
        if unknown or not {"at", "kind"} <= entry.keys():
            raise BindError(f"a fault has at, kind, number and request, not {', '.join(sorted(entry))}")
        fault = Fault(
            at=entry["at"], kind=entry["kind"], number=int(entry.get("number", 0)), request=entry.get("request")
        )
        if not (fault.kind in NODE_KINDS and fault.at in nodes) and not (
            fault.kind in EDGE_KINDS and fault.at in edges
        ):
            raise BindError(f"fault {fault.kind} at `{fault.at}`: there is no such fault, or no such node or edge")
        if fault.kind == "hang" and unit_seconds is None:
            raise BindError(f"fault hang at `{fault.at}` needs a limit of unit_seconds, or it would never end")
        faults.append(fault)
    return Faults(faults)
