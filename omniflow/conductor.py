"""Moves requests: asks nodes for units, folds results in, ends requests. All of it happens between two batches."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence

from omniflow.batcher import Batcher
from omniflow.execution import Outcome
from omniflow.line import Line
from omniflow.loops.ar_decode import POOL, TURN
from omniflow.loops.base import BadResult, Done, Unit, Wait
from omniflow.node import Agenda, Lane, NodeRun, expert_of
from omniflow.pool import NeverFits
from omniflow.request import Request, State
from omniflow.trace import UnitEvent


class Conductor:
    """The requests in work. `on_end` is told of each request that ends, once, when all it held has been freed.

    `on_evict` is told of one that gave its room to a request of higher priority, and begins anew later.
    """

    def __init__(
        self,
        agenda: Agenda,
        batcher: Batcher,
        running: Mapping[int, Request],
        on_end: Callable[[Request], None],
        on_evict: Callable[[Request], None],
    ) -> None:
        self.agenda = agenda
        self.batcher = batcher
        self.running = running
        self.on_end = on_end
        self.on_evict = on_evict
        self.lines: dict[int, Line] = {}  # those that wait for a cache, by its expert's identity
        self.turnless: deque[Lane] = deque()  # wait until another request has gathered its caches

    # -- what is ready ---------------------------------------------------------------------------------------------

    def collect(self) -> None:
        """Asks every node and lane for which something changed, until nothing does."""
        lanes, nodes = self.agenda.lanes, self.agenda.nodes
        while lanes or nodes:
            while lanes:
                lane = lanes.popleft()
                lane.is_queued = False
                if not lane.is_over:
                    self._ask(lane)
            if nodes:
                run = nodes.popleft()
                run.is_queued = False
                if not run.is_finished:
                    self._open(run)

    def _open(self, run: NodeRun) -> None:
        """Starts the items of a node that can start; ends a node that has no more."""
        try:
            run.open_lanes()
        except Exception as error:  # noqa: BLE001  the request's boundary
            self._fail(run, describe(error))
            return
        if not run.lanes and run.has_begun_all():
            run.finish()
            self._give_room()  # with its edges it has let go of caches that were handed to it
            run.request.num_open -= 1
            if run.request.num_open == 0:
                self._finish(run.request)

    def _ask(self, lane: Lane) -> None:
        """Takes a lane's next unit, wait or end."""
        run = lane.node
        if run.num_full:
            run.parked.append(lane)
            if lane.waits_on == POOL:
                self._leave_line(lane)
            return
        had_no_room, lane.waits_on = lane.waits_on == POOL, None
        if self.lines and not had_no_room and not lane.has_begun and self._is_behind(lane):
            self._stand(lane)
            return
        try:
            answer = run.bound.loop.next(lane.state)
            if type(answer) is Done:
                self._close(lane, answer.reason)
        except NeverFits as error:
            self._fail(run, describe(error), State.REFUSED)
            return
        except Exception as error:  # noqa: BLE001  the request's boundary
            self._fail(run, describe(error))
            return
        if type(answer) is Wait:
            lane.waits_on = answer.on
            if answer.on == TURN:
                self.turnless.append(lane)
                if had_no_room:
                    self._served(lane)  # it steps out of the line, which others behind it may need
                return
            if answer.on == POOL:
                if not had_no_room:
                    self._stand(lane)
                self._preempt(lane)
                return
        elif type(answer) is Unit:
            answer.lane = lane
            lane.unit = answer
            lane.has_begun = True
            self.batcher.put(answer)
            if self.turnless and "kv" in run.bound.wanted:
                self._give_turn()
        if had_no_room:
            self._served(lane)

    def _close(self, lane: Lane, reason: str) -> None:
        """An item of a node is through."""
        run = lane.node
        run.emit(lane, run.bound.loop.finalize(lane.state))
        run.count.reasons[reason] += 1
        run.note(lane)
        run.remember(lane)
        if not lane.is_stuck:
            self._release(lane)
        run.close_lane(lane)
        run.wake()

    # -- what has run ----------------------------------------------------------------------------------------------

    def fold(self, units: Sequence[Unit], outcome: Outcome) -> None:
        """Gives every unit's result to its loop and sends on what leaves."""
        now, share = self.agenda.clock, outcome.seconds / len(units)
        for unit, result in zip(units, outcome.results, strict=True):
            lane: Lane = unit.lane
            run = lane.node
            lane.unit = None
            if lane.is_over:
                continue
            number = run.count.add(unit.kind, expert_of(unit), share, now, unit.cached)
            if self.agenda.trace is not None:
                self.agenda.trace.units.append(_event(unit, number, outcome.seconds, now, len(units)))
            if type(result) is BadResult:
                self._fail(run, f"unit {number}: {result.problem}")
                continue
            try:
                run.emit(lane, run.bound.loop.advance(lane.state, result))
            except Exception as error:  # noqa: BLE001  the request's boundary
                self._fail(run, f"unit {number}: {describe(error)}")
                continue
            run.wake_lane(lane)

    # -- what ends -------------------------------------------------------------------------------------------------

    def _fail(self, run: NodeRun, problem: str, state: State = State.FAILED) -> None:
        """A node cannot go on: what leads only to outputs behind it is dropped, the other outputs still come."""
        spec, request = run.bound.spec, run.request
        if request.state.is_end or run.is_finished:
            return
        error = request.errors[spec.id] = f"{spec.place}: node {spec.id}: {problem}"
        if state is not State.FAILED:
            self.end(request, state, error)
            return
        dropped = request.lose(run)
        self._free(dropped)
        request.num_open -= len(dropped)
        self._give_room()
        if request.num_open == 0:
            self._finish(request)

    def _finish(self, request: Request) -> None:
        """No node is left: done, unless one has failed."""
        if request.errors:
            self.end(request, State.FAILED, next(iter(request.errors.values())))
        else:
            self.end(request, State.DONE)

    def end(self, request: Request, state: State, error: str | None = None) -> None:
        """The one way to the one end: frees all that the request holds."""
        assert not request.state.is_end
        request.state, request.error, request.ended = state, error, self.agenda.now()
        self._free(request.nodes)
        self._give_room()
        self.on_end(request)
        request.runs = {}

    def _preempt(self, lane: Lane) -> None:
        """The youngest request of the lowest priority that holds room on the expert gives it to a higher priority."""
        mine, expert = lane.node.request, lane.node.bound.expert
        below = [r for r in self.running.values() if r.priority < mine.priority and r.is_evictable(expert)]
        if below:
            self.evict(min(below, key=lambda request: (request.priority, -request.id)))

    def relieve(self, stalled: Sequence[Request]) -> bool:
        """Where all that is left waits for room, one that holds some of it begins anew. Returns whether there was one.

        It may be its own neighbour: what it holds can lie in the middle of the room that it still needs.
        """
        lanes = [lane for request in stalled for run in request.nodes for lane in run.lanes.values()]
        holders = {
            lane.node.request.id: lane.node.request
            for lane in lanes
            if lane.waits_on == POOL and lane.node.request.is_evictable(lane.node.bound.expert)
        }
        if holders:
            self.evict(min(holders.values(), key=lambda request: (request.priority, -request.id)))
        return bool(holders)

    def evict(self, request: Request) -> None:
        """Frees all that a request holds and lets it begin anew: what it gave so far it will give again."""
        self._free(request.nodes)
        request.begin_anew()
        self.on_evict(request)
        self._give_room()

    def _free(self, runs: Iterable[NodeRun]) -> None:
        for run in runs:
            for lane in run.lanes.values():
                if not lane.is_over:
                    lane.is_over = True
                    if lane.unit is not None:
                        self.batcher.discard(lane.unit)
                    if not lane.is_stuck:
                        self._release(lane)
            run.stop()
        for line in self.lines.values():
            line.drop_ended()
        if self.turnless:
            self.turnless = deque(lane for lane in self.turnless if not lane.is_over)

    def come_back(self, units: Sequence[Unit]) -> None:
        """A call that had been given up has come back: what its rows hold can be freed, and who went on cannot."""
        for unit in units:
            lane: Lane = unit.lane
            lane.is_stuck = False
            if lane.is_over:
                self._release(lane)
            else:
                self._fail(lane.node, "a call of its expert that had been given up came back and touched its state")

    def _release(self, lane: Lane) -> None:
        try:
            lane.node.bound.loop.release(lane.state)
        except Exception as error:  # noqa: BLE001  a request ends even when its expert cannot let go of it
            request = lane.node.request
            request.error = request.error or f"node {lane.node.bound.spec.id} was not released: {describe(error)}"
        self._give_room()

    # -- who waits -------------------------------------------------------------------------------------------------

    @property
    def num_roomless(self) -> int:
        """Lanes that wait for a cache."""
        return sum(map(len, self.lines.values()))

    def _is_behind(self, lane: Lane) -> bool:
        """Whether a lane that has nothing yet would take room that others wait for."""
        bound = lane.node.bound
        line = self.lines.get(id(bound.expert))
        return line is not None and len(line) > 0 and bound.spec.name == "ar_decode" and line.goes_before(lane)

    def _stand(self, lane: Lane) -> None:
        lane.waits_on = POOL
        self.lines.setdefault(id(lane.node.bound.expert), Line()).put(lane)

    def _served(self, lane: Lane) -> None:
        """A lane that waited has room, or needs none any more: the next may try."""
        if self.lines[id(lane.node.bound.expert)].served(lane):
            lane.node.request.is_spared = True
        self._give_room()

    def _leave_line(self, lane: Lane) -> None:
        """A lane cannot go on for another reason: who waits behind it may try."""
        lane.waits_on = None
        self.lines[id(lane.node.bound.expert)].leave(lane)
        self._give_room()

    def _give_room(self) -> None:
        """Lets the first lane that waits for each cache try again."""
        for line in self.lines.values():
            if len(line):
                lane = line.first()
                lane.node.wake_lane(lane)
        if self.turnless:
            self._give_turn()

    def _give_turn(self) -> None:
        """Lets the lanes try again that wait until another request has gathered its caches."""
        waiting, self.turnless = self.turnless, deque()
        for lane in waiting:
            lane.node.wake_lane(lane)


def _event(unit: Unit, number: int, seconds: float, now: float, width: int) -> UnitEvent:
    run = unit.lane.node
    return UnitEvent(
        now - seconds, seconds, run.request.id, run.bound.spec.id, unit.kind, unit.lane.item, number, unit.grant, width,
        unit.cached, expert_of(unit),
    )  # fmt: skip


def describe(error: Exception) -> str:
    """One line for an error of a loop, an op or an expert."""
    text = " ".join(str(error).split()) or "no message"
    return text if isinstance(error, ValueError) else f"{type(error).__name__}: {text}"
