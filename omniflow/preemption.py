"""Who gives up room in an expert's cache to whom: a request of lower priority to a higher one, or to get unstuck.

What a sequence has cached is set aside in host memory and comes back as it was, so that nothing is computed twice. A
request whose caches cannot be set aside (they are handed on by reference, or there is no room for them) begins anew.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from omniflow.endings import Endings
from omniflow.execution import Lost
from omniflow.loops.ar_decode import POOL
from omniflow.node import Lane
from omniflow.request import Request


class Preemption:
    """`on_anew` is told of a request that begins anew, and has to be let in again."""

    def __init__(self, endings: Endings, running: Mapping[int, Request], on_anew: Callable[[Request], None]) -> None:
        self.endings = endings
        self.batcher = endings.batcher
        self.rooms = endings.rooms
        self.running = running
        self.on_anew = on_anew

    def preempt(self, lane: Lane) -> None:
        """The youngest request of the lowest priority that holds room on the expert gives it to a higher priority."""
        mine, expert = lane.node.request, lane.node.bound.expert
        below = [r for r in self.running.values() if r.priority < mine.priority and r.is_evictable(expert)]
        if below:
            self.evict(min(below, key=_lowest), expert)

    def relieve(self, stalled: Sequence[Request], held: Sequence[Request]) -> bool:
        """Where all that is left waits for room, one that holds some of it gives it up. Returns whether there was one.

        Those whose clients do not read, the `held`, have no use for theirs and come first. It may be its own neighbour:
        what it holds can lie in the middle of the room that it still needs.
        """
        missing = [expert for request in stalled for expert in request.missing]
        for expert in missing:
            idle = [request for request in held if request.is_evictable(expert)]
            if idle:
                self.evict(min(idle, key=_lowest), expert)
                return True
        lanes = [lane for request in stalled for run in request.nodes for lane in run.lanes.values()]
        holders = {
            lane.node.request.id: (lane.node.request, lane.node.bound.expert)
            for lane in lanes
            if lane.waits_on == POOL and lane.node.request.is_evictable(lane.node.bound.expert, is_stalled=True)
        }
        if holders:
            self.evict(*min(holders.values(), key=lambda holder: _lowest(holder[0])))
        return bool(holders)

    @staticmethod
    def patient(held: Sequence[Request], stalled: Sequence[Request], lost: Sequence[Lost]) -> list[Request]:
        """Those of the stalled that wait for room which may come back: a lost call has it, or one of the held, or one

        that waits for such room.
        """
        found = list(held)
        found += [request for request in stalled if any(waits_for(request, call) for call in lost)]
        for holder in found:  # grows meanwhile
            found += [r for r in stalled if r not in found and any(map(holder.holds_cache_of, r.missing))]
        return found[len(held) :]

    def evict(self, request: Request, expert: Any) -> None:
        """Takes a request's room on an expert: its sequences wait for room again, or all of it begins anew."""
        request.give_way()
        if not self._set_aside(request, expert):
            self.endings.free(request.nodes)
            request.begin_anew()
            self.on_anew(request)
        self.rooms.give()

    def _set_aside(self, request: Request, expert: Any) -> bool:
        """Whether all that the request holds of the expert's cache could be set aside."""
        runs = [run for run in request.nodes if run.bound.expert is expert]
        if any("kv" in run.bound.wanted for run in runs):
            return False
        lanes = [lane for run in runs for lane in run.lanes.values() if lane.has_room and not lane.is_over]
        for lane in lanes:
            if not lane.node.bound.loop.set_aside(lane.state):
                return False
            lane.has_room = False
        for lane in reversed(lanes):
            self._withdraw(lane)
        return True

    def _withdraw(self, lane: Lane) -> None:
        """A lane without room has no unit of its expert: it goes back to the line, before those who came later."""
        if lane.unit is not None and lane.unit.expert is None:
            self.batcher.discard(lane.unit)
            lane.unit = None
            self.rooms.stand(lane, is_first=True)


def waits_for(request: Request, lost: Lost) -> bool:
    """Whether a request waits for room that a call which does not answer may have."""
    has_deadline = request.deadline is not None
    return lost.is_waited_for(has_deadline=has_deadline) and any(map(lost.holds_cache_of, request.missing))


def _lowest(request: Request) -> tuple[int, int]:
    return request.priority, -request.id
