"""Lanes that wait for room in one expert's cache: those of the highest priority first, and nobody waits for ever."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from typing import TYPE_CHECKING

from omniflow.admission import MAX_OVERTAKEN

if TYPE_CHECKING:
    from omniflow.node import Lane


class Line:
    """First come first served within a priority; a lower one goes first once it was overtaken too often."""

    def __init__(self) -> None:
        self._lanes: dict[int, deque[Lane]] = {}  # by priority; none is empty
        self._overtaken: dict[int, int] = {}

    def __len__(self) -> int:
        return sum(map(len, self._lanes.values()))

    def __iter__(self) -> Iterator[Lane]:
        for priority in sorted(self._lanes, reverse=True):
            yield from self._lanes[priority]

    def put(self, lane: Lane, *, is_first: bool = False) -> None:
        """A lane has no room; it stands behind all others of its priority, or before them."""
        lanes = self._lanes.setdefault(lane.node.request.priority, deque())
        if is_first:
            lanes.appendleft(lane)
        else:
            lanes.append(lane)

    def goes_before(self, lane: Lane) -> bool:
        """Whether somebody here must have room before a lane that comes now."""
        return bool(self._patient()) or any(priority >= lane.node.request.priority for priority in self._lanes)

    def _patient(self) -> list[int]:
        return [priority for priority in self._lanes if self._overtaken.get(priority, 0) >= MAX_OVERTAKEN]

    def first(self) -> Lane:
        """The lane that may try next; there must be one. It stands here until it is served."""
        patient = self._patient()
        return self._lanes[min(patient) if patient else max(self._lanes)][0]

    def served(self, lane: Lane) -> bool:
        """A lane has found room, before those of lower priority. Whether it had been overtaken too often."""
        priority = lane.node.request.priority
        was_patient = self._overtaken.pop(priority, 0) >= MAX_OVERTAKEN
        self.leave(lane)
        for other in self._lanes:
            if other < priority:
                self._overtaken[other] = self._overtaken.get(other, 0) + 1
        return was_patient

    def leave(self, lane: Lane) -> None:
        """A lane waits for something else."""
        lanes = self._lanes.get(lane.node.request.priority, ())
        if lane in lanes:
            self._lanes[lane.node.request.priority].remove(lane)
            self._tidy()

    def drop_ended(self) -> None:
        """Lanes whose request has ended leave."""
        for priority, lanes in self._lanes.items():
            self._lanes[priority] = deque(lane for lane in lanes if not lane.is_over)
        self._tidy()

    def _tidy(self) -> None:
        for priority in [p for p, lanes in self._lanes.items() if not lanes]:
            del self._lanes[priority]
