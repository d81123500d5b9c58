"""How nodes fail and requests end: once, with all that they held given back."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from omniflow.agenda import Agenda
from omniflow.batcher import Batcher
from omniflow.loops.base import Unit
from omniflow.node import Lane, NodeRun
from omniflow.request import Request, State
from omniflow.rooms import Rooms


class Endings:
    """`on_end` is told of each request that ends, when nothing is held for it any more."""

    def __init__(self, agenda: Agenda, batcher: Batcher, rooms: Rooms, on_end: Callable[[Request], None]) -> None:
        self.agenda = agenda
        self.batcher = batcher
        self.rooms = rooms
        self.on_end = on_end

    def end(self, request: Request, state: State, error: str | None = None) -> None:
        """The one way to the one end: frees all that the request holds."""
        assert not request.state.is_end
        request.state, request.error, request.ended = state, error, self.agenda.now()
        if request.runs:
            self.free(request.nodes)
            self.rooms.give()
        self.on_end(request)
        request.runs = {}

    def fail(self, run: NodeRun, problem: str, state: State = State.FAILED) -> None:
        """A node cannot go on: what leads only to outputs behind it is dropped, the other outputs still come."""
        spec, request = run.bound.spec, run.request
        if request.state.is_end or run.is_finished:
            return
        error = request.errors[spec.id] = f"{spec.place}: node {spec.id}: {problem}"
        if state is not State.FAILED:
            self.end(request, state, error)
            return
        dropped = request.lose(run)
        self.free(dropped)
        request.num_open -= len(dropped)
        self.rooms.give()
        if request.num_open == 0:
            self.finish(request)

    def finish(self, request: Request) -> None:
        """No node is left: done, unless one has failed."""
        if request.errors:
            self.end(request, State.FAILED, next(iter(request.errors.values())))
        else:
            self.end(request, State.DONE)

    def free(self, runs: Iterable[NodeRun]) -> None:
        """Stops nodes wherever they are."""
        for run in runs:
            for lane in run.lanes.values():
                if not lane.is_over:
                    lane.is_over = True
                    if lane.unit is not None:
                        self.batcher.discard(lane.unit)
                    if not lane.is_stuck:
                        self.release(lane)
            run.stop()
        self.rooms.drop_ended()

    def release(self, lane: Lane) -> None:
        """Gives back what a lane's loop holds."""
        try:
            lane.node.bound.loop.release(lane.state)
        except Exception as error:  # noqa: BLE001  a request ends even when its expert cannot let go of it
            request = lane.node.request
            request.error = request.error or f"node {lane.node.bound.spec.id} was not released: {describe(error)}"
        self.rooms.give()

    def come_back(self, units: Sequence[Unit]) -> None:
        """A call that had been given up has come back: what its rows hold can be freed, and who went on cannot."""
        for unit in units:
            lane: Lane = unit.lane
            lane.num_stuck -= 1
            if lane.is_over and not lane.is_stuck:
                self.release(lane)
            elif not lane.is_over:
                self.fail(lane.node, "a call of its expert that had been given up came back and touched its state")


def describe(error: Exception) -> str:
    """One line for an error of a loop, an op or an expert."""
    text = " ".join(str(error).split()) or "no message"
    return text if isinstance(error, ValueError) else f"{type(error).__name__}: {text}"
