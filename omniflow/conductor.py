"""Moves requests on: asks nodes for units and folds results in. All of it happens between two batches."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from omniflow.agenda import Agenda
from omniflow.batcher import Batcher
from omniflow.endings import Endings, describe
from omniflow.execution import Outcome
from omniflow.inputs import far_out
from omniflow.loops.ar_decode import POOL, TURN
from omniflow.loops.base import BadResult, Done, Unit, Wait
from omniflow.node import Lane, NodeRun, expert_of
from omniflow.pool import NeverFits
from omniflow.preemption import Preemption
from omniflow.request import Request, State
from omniflow.rooms import Rooms
from omniflow.trace import UnitEvent


class Conductor:
    """The requests in work. `on_end` is told of each request that ends, once, when all it held has been freed.

    `on_anew` is told of one that gave its room to another and begins anew later.
    """

    def __init__(
        self,
        agenda: Agenda,
        batcher: Batcher,
        running: Mapping[int, Request],
        on_end: Callable[[Request], None],
        on_anew: Callable[[Request], None],
    ) -> None:
        self.agenda = agenda
        self.batcher = batcher
        self.rooms = Rooms()
        self.endings = Endings(agenda, batcher, self.rooms, on_end)
        self.preemption = Preemption(self.endings, running, on_anew)

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
            self._fail(run, error)
            return
        if not run.lanes and run.has_begun_all():
            run.finish()
            self.rooms.give()  # with its edges it has let go of caches that were handed to it
            run.request.num_open -= 1
            if run.request.num_open == 0:
                self.endings.finish(run.request)

    def _ask(self, lane: Lane) -> None:
        """Takes a lane's next unit, wait or end."""
        run = lane.node
        if run.num_full:
            run.parked.append(lane)
            if lane.waits_on == POOL:
                self.rooms.leave(lane)
            return
        had_no_room, lane.waits_on = lane.waits_on == POOL, None
        if self.rooms.lines and not had_no_room and not lane.has_room and self.rooms.is_behind(lane):
            self.rooms.stand(lane)
            return
        try:
            answer = run.bound.loop.next(lane.state)
            if type(answer) is Done:
                self._close(lane, answer.reason)
        except NeverFits as error:
            self.endings.fail(run, describe(error), State.REFUSED)
            return
        except Exception as error:  # noqa: BLE001  the request's boundary
            self._fail(run, error)
            return
        if type(answer) is Wait:
            lane.waits_on = answer.on
            if answer.on == TURN:
                self.rooms.turnless.append(lane)
                if had_no_room:
                    self.rooms.served(lane)  # it steps out of the line, which others behind it may need
                return
            if answer.on == POOL:
                if not had_no_room:
                    self.rooms.stand(lane)
                self.preemption.preempt(lane)
                return
        elif type(answer) is Unit:
            answer.lane, lane.has_news = lane, False
            lane.unit = answer
            if answer.expert is None:
                lane.has_room = True
            self.batcher.put(answer)
            if self.rooms.turnless and "kv" in run.bound.wanted:
                self.rooms.give_turn()
        if had_no_room:
            self.rooms.served(lane)

    def _fail(self, run: NodeRun, error: Exception) -> None:
        """A node cannot go on; where its values are what was asked for and are at fault, the request is refused."""
        is_refused = isinstance(error, ValueError) and (run.bound.is_early or run.bound.loop.is_asked)
        self.endings.fail(run, describe(error), State.REFUSED if is_refused else State.FAILED)

    def _close(self, lane: Lane, reason: str) -> None:
        """An item of a node is through."""
        run = lane.node
        run.emit(lane, run.bound.loop.finalize(lane.state))
        run.count.reasons[reason] += 1
        run.note(lane)
        run.remember(lane)
        if not lane.is_stuck:
            self.endings.release(lane)
        run.close_lane(lane)
        run.wake()

    # -- what has run ----------------------------------------------------------------------------------------------

    def fold(self, units: Sequence[Unit], outcome: Outcome) -> None:
        """Gives every unit's result to its loop and sends on what leaves."""
        now, share, trace = self.agenda.clock, outcome.seconds / len(units), self.agenda.trace
        expert, asleep = expert_of(units[0]), self.agenda.lanes
        for unit, result in zip(units, outcome.results, strict=True):
            lane: Lane = unit.lane
            run = lane.node
            lane.unit = None
            if lane.is_over:
                continue
            number = run.count.add(unit.kind, expert, share, now, unit.cached)
            if trace is not None:
                trace.units.append(_event(unit, number, outcome.seconds, now, len(units)))
            if type(result) is BadResult:
                self._spoil(run, number, result)
                continue
            try:
                emits = run.bound.loop.advance(lane.state, result)
                if emits:
                    run.emit(lane, emits)
            except Exception as error:  # noqa: BLE001  the request's boundary
                self.endings.fail(run, f"unit {number}: {describe(error)}")
                continue
            if unit.rests_on is not None and not lane.has_news:
                lane.waits_on = unit.rests_on
            elif not lane.is_queued:
                lane.is_queued = True
                asleep.append(lane)

    def _spoil(self, run: NodeRun, number: int, result: BadResult) -> None:
        """A result is of no use. Where what the client gave is to blame, the request is refused."""
        far = None if result.is_finite else far_out(run.request.inputs)
        problem = result.problem if far is None else f"{result.problem}; {far}"
        is_refused = far is not None or (result.is_of_values and run.bound.is_early)
        self.endings.fail(run, f"unit {number}: {problem}", State.REFUSED if is_refused else State.FAILED)


def _event(unit: Unit, number: int, seconds: float, now: float, width: int) -> UnitEvent:
    run = unit.lane.node
    return UnitEvent(
        now - seconds, seconds, run.request.id, run.bound.spec.id, unit.kind, unit.lane.item, number, unit.grant, width,
        unit.cached, expert_of(unit),
    )  # fmt: skip
