"""Who waits for what others hold: room in an expert's cache, or the turn to gather caches that are handed on."""

from __future__ import annotations

from collections import deque

from omniflow.line import Line
from omniflow.loops.ar_decode import POOL
from omniflow.node import Lane


class Rooms:
    """A line of lanes per expert's cache, and the lanes that wait until another request has gathered its caches."""

    def __init__(self) -> None:
        self.lines: dict[int, Line] = {}  # by the expert's identity
        self.turnless: deque[Lane] = deque()

    @property
    def num_waiting(self) -> int:
        """Lanes that wait for a cache."""
        return sum(map(len, self.lines.values()))

    def is_behind(self, lane: Lane) -> bool:
        """Whether a lane that has nothing yet would take room that others wait for."""
        bound = lane.node.bound
        line = self.lines.get(id(bound.expert))
        return line is not None and len(line) > 0 and bound.loop.takes_room(lane.state) and line.goes_before(lane)

    def stand(self, lane: Lane, *, is_first: bool = False) -> None:
        """A lane waits for room, behind all of its priority or before them."""
        lane.waits_on = POOL
        self.lines.setdefault(id(lane.node.bound.expert), Line()).put(lane, is_first=is_first)

    def served(self, lane: Lane) -> None:
        """A lane that waited has room, or needs none any more: the next may try."""
        if self.lines[id(lane.node.bound.expert)].served(lane):
            lane.node.request.is_spared = True
        self.give()

    def leave(self, lane: Lane) -> None:
        """A lane cannot go on for another reason: who waits behind it may try."""
        lane.waits_on = None
        self.lines[id(lane.node.bound.expert)].leave(lane)
        self.give()

    def give(self) -> None:
        """Lets the first lane that waits for each cache try again."""
        for line in self.lines.values():
            if len(line):
                lane = line.first()
                lane.node.wake_lane(lane)
        if self.turnless:
            self.give_turn()

    def give_turn(self) -> None:
        """Lets the lanes try again that wait until another request has gathered its caches."""
        waiting, self.turnless = self.turnless, deque()
        for lane in waiting:
            lane.node.wake_lane(lane)

    def drop_ended(self) -> None:
        """Lanes whose request has ended leave."""
        for line in self.lines.values():
            line.drop_ended()
        if self.turnless:
            self.turnless = deque(lane for lane in self.turnless if not lane.is_over)
