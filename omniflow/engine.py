"""The engine: runs many requests at once, a batch of work units at a time. `Engine.step` is the whole of it."""

from __future__ import annotations

import heapq
import time
from collections import deque
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from typing import Any

from omniflow.admission import Queue, reason_to_refuse
from omniflow.batcher import Batcher, Limits
from omniflow.bind import Bound
from omniflow.execution import Outcome, execute
from omniflow.inputs import check_inputs, check_params
from omniflow.loops.ar_decode import POOL
from omniflow.loops.base import BadResult, Done, Unit, Wait
from omniflow.node import Agenda, Lane, NodeRun
from omniflow.pool import NeverFits
from omniflow.pump import Mailbox, Pump
from omniflow.record import result_of, stall_of
from omniflow.request import Request, Result, State
from omniflow.rng import DERIVED, own_generator
from omniflow.stream import Ended, Piece
from omniflow.trace import Trace, UnitEvent
from omniflow.wiring import build


class Engine:
    """Runs the program of one loaded schedule. Make it with `omniflow.load`.

    One thread steps it; `submit` and `cancel` may come from others.
    """

    def __init__(
        self, bound: Bound, *, limits: Limits | None = None, profile: str = "serve", trace: bool = False
    ) -> None:
        self.bound = bound
        self.schedule = bound.schedule
        self.limits = limits or Limits()
        self.profile = profile
        self.trace = Trace() if trace else None
        self.agenda = Agenda(self.trace)
        self.batcher = Batcher(self.limits, self.agenda.recheck)
        self.queue = Queue(self.limits)
        self.waiting: dict[int, Request] = {}  # those in the queue, by id
        self.running: dict[int, Request] = {}
        self.results: dict[int, Result] = {}
        self.num_submitted = 0
        self._cancels: deque[int] = deque()
        self._holds: deque[tuple[int, bool]] = deque()
        self._pump = Pump(self)
        self._deadlines: list[tuple[float, int]] = []
        self._roomless: deque[Lane] = deque()  # wait for a cache, first come first served
        self._born = time.perf_counter()

    # -- what a client does ----------------------------------------------------------------------------------------

    def submit(
        self,
        inputs: Mapping[str, Any],
        *,
        seed: int = 0,
        params: Mapping[str, Any] | None = None,
        rng: str = DERIVED,
        deadline: float | None = None,
        priority: int = 0,
        listener: Callable[[Piece], None] | None = None,
        keep: bool = True,
    ) -> int:
        """Queues a request and returns its id; one that can never be served has ended as refused already.

        params: `node.attribute` to value, over the schedule's own. rng: `derived`, or `torch` to draw all its numbers
        from one torch generator, node after node. deadline: seconds from now. priority: higher ones are let in first.
        listener: called with every piece of every output from within `step`. keep: whether the result has the outputs.
        Errors: InputError, BusyError.
        """
        values = check_inputs(self.schedule, inputs)
        own = check_params(self.schedule, params or {})
        now = self.now()
        request = Request(
            self.num_submitted,
            inputs=values,
            seed=seed,
            generator=own_generator(rng, seed),
            params=own,
            submitted=now,
            priority=priority,
            rollout=self.profile == "rollout",
            keep=keep,
            listener=listener,
        )
        refusal = reason_to_refuse(self.schedule, deadline)
        if refusal is None:
            self.queue.put(request)
            self.waiting[request.id] = request
            if deadline is not None:
                heapq.heappush(self._deadlines, (now + deadline, request.id))
        self.num_submitted += 1
        if refusal is not None:
            self._end(request, State.REFUSED, refusal)
        return request.id

    def cancel(self, request_id: int) -> None:
        """Ends a request at the next unit boundary; one that has ended stays as it is."""
        self._cancels.append(request_id)

    def result(self, request_id: int) -> Result | None:
        """The result of a request that has ended, handed out once; None before."""
        return self.results.pop(request_id, None)

    def run(
        self,
        inputs: Mapping[str, Any],
        *,
        seed: int = 0,
        params: Mapping[str, Any] | None = None,
        rng: str = DERIVED,
        deadline: float | None = None,
        listener: Callable[[Piece], None] | None = None,
    ) -> Result:
        """Submits one request and steps until it has ended. Errors: InputError, BusyError."""
        request_id = self.submit(inputs, seed=seed, params=params, rng=rng, deadline=deadline, listener=listener)
        while (result := self.result(request_id)) is None:
            self.step()
        return result

    async def stream(
        self,
        inputs: Mapping[str, Any],
        *,
        seed: int = 0,
        params: Mapping[str, Any] | None = None,
        deadline: float | None = None,
        capacity: int = 64,
    ) -> AsyncIterator[Piece | Ended]:
        """The request's pieces as they come, then `Ended` with its result (which holds no outputs).

        A client that does not read is waited for once `capacity` pieces lie ready; one that leaves cancels its request.
        Errors: InputError, BusyError, before the first event.
        """
        box = Mailbox(self, capacity)
        box.request = self.submit(inputs, seed=seed, params=params, deadline=deadline, listener=box.put, keep=False)
        async for event in self._pump.listen(box):
            yield event

    def hold(self, request_id: int, *, is_held: bool) -> None:
        """Holds back what feeds a request's outputs, or lets it go on; between steps or from a listener."""
        request = self.running.get(request_id)
        for outlet in request.outlets.values() if request is not None else ():
            outlet.set_full(is_held)

    def post_hold(self, request_id: int, *, is_held: bool) -> None:
        """The same from another thread: it takes effect at the next step."""
        self._holds.append((request_id, is_held))

    @property
    def is_idle(self) -> bool:
        """Whether no request waits or runs."""
        return not self.waiting and not self.running

    @property
    def live(self) -> int:
        """What is held for requests, counted anew: lanes, ready units, elements in channels, leases. 0 when idle."""
        runs = [run for request in self.running.values() for run in request.nodes]
        lanes = sum(len(run.lanes) for run in runs)
        held = sum(channel.recount() for run in runs for channels in run.inputs.values() for channel in channels)
        ready = sum(len(group.units) for group in self.batcher.groups.values())
        return lanes + held + ready + len(self._roomless) + self.bound.pools.live

    def now(self) -> float:
        """Seconds since the engine was made."""
        return time.perf_counter() - self._born

    # -- the step --------------------------------------------------------------------------------------------------

    def step(self) -> bool:
        """Hears what must end, admits what waits, collects what is ready, runs the deepest group of it as one batch,

        and passes on what that gives. Returns whether there was anything to do.
        """
        self._hear()
        self._admit()
        self._collect()
        units = self.batcher.take()
        if not units:
            return self._settle()
        self._fold(units, execute(units))
        return True

    def _hear(self) -> None:
        """Cancels, deadlines, and clients that read again."""
        self.agenda.clock = self.now()
        while self._holds:
            request_id, is_held = self._holds.popleft()
            self.hold(request_id, is_held=is_held)
        while self._cancels:
            request = self._find(self._cancels.popleft())
            if request is not None:
                self._end(request, State.CANCELLED)
        while self._deadlines and self._deadlines[0][0] <= self.agenda.clock:
            request = self._find(heapq.heappop(self._deadlines)[1])
            if request is not None:
                self._end(request, State.CANCELLED, "its deadline passed")

    def _admit(self) -> None:
        """As many at once as the limits allow."""
        while self.waiting and len(self.running) < self.limits.running:
            request = self.queue.take()
            del self.waiting[request.id]
            request.state = State.RUNNING
            request.started = self.agenda.clock
            self.running[request.id] = request
            try:
                build(request, self.bound, self.agenda)
            except ValueError as error:
                self._end(request, State.FAILED, describe(error))
            else:
                if not request.runs:
                    self._end(request, State.DONE)

    def _collect(self) -> None:
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
            run.request.num_open -= 1
            if run.request.num_open == 0:
                self._end(run.request, State.DONE)

    def _ask(self, lane: Lane) -> None:
        """Takes a lane's next unit, wait or end."""
        run = lane.node
        if run.num_full:
            run.parked.append(lane)
            return
        had_no_room, lane.waits_on = lane.waits_on == POOL, None
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
            if answer.on == POOL:
                (self._roomless.appendleft if had_no_room else self._roomless.append)(lane)
                return
        elif type(answer) is Unit:
            answer.lane = lane
            lane.unit = answer
            self.batcher.put(answer)
        if had_no_room:
            self._give_room()

    def _close(self, lane: Lane, reason: str) -> None:
        """An item of a node is through."""
        run = lane.node
        run.emit(lane, run.bound.loop.finalize(lane.state))
        run.count.reasons[reason] += 1
        run.note(lane)
        self._release(lane)
        run.close_lane(lane)
        run.wake()

    def _fold(self, units: Sequence[Unit], outcome: Outcome) -> None:
        """Gives every unit's result to its loop and sends on what leaves."""
        self.agenda.clock = now = self.now()
        share = outcome.seconds / len(units)
        for unit, result in zip(units, outcome.results, strict=True):
            lane: Lane = unit.lane
            run = lane.node
            lane.unit = None
            if lane.is_over:
                continue
            index = run.count.add(unit.kind, share, now)
            if self.trace is not None:
                self.trace.units.append(
                    UnitEvent(
                        now - outcome.seconds,
                        outcome.seconds,
                        run.request.id,
                        run.bound.spec.id,
                        unit.kind,
                        lane.item,
                        index,
                        unit.grant,
                        len(units),
                    )
                )
            if type(result) is BadResult:
                self._fail(run, f"unit {index}: {result.problem}")
                continue
            try:
                run.emit(lane, run.bound.loop.advance(lane.state, result))
            except Exception as error:  # noqa: BLE001  the request's boundary
                self._fail(run, f"unit {index}: {describe(error)}")
                continue
            run.wake_lane(lane)

    def _settle(self) -> bool:
        """Nothing is ready: who waits for nobody outside waits for ever, so it fails and says for what."""
        stalled = [request for request in self.running.values() if not request.is_held_back]
        for request in stalled:
            self._end(request, State.FAILED, stall_of(request))
        return bool(stalled)

    # -- ends ------------------------------------------------------------------------------------------------------

    def _find(self, request_id: int) -> Request | None:
        return self.running.get(request_id) or self.waiting.get(request_id)

    def _fail(self, run: NodeRun, problem: str, state: State = State.FAILED) -> None:
        spec = run.bound.spec
        if not run.request.state.is_end:
            self._end(run.request, state, f"{spec.place}: node {spec.id}: {problem}")

    def _end(self, request: Request, state: State, error: str | None = None) -> None:
        """The one way to the one end: frees all that the request holds and makes its result."""
        assert not request.state.is_end
        request.state, request.error, request.ended = state, error, self.now()
        self.running.pop(request.id, None)
        if self.waiting.pop(request.id, None) is not None:
            self.queue.remove(request)
        for run in request.nodes:
            for lane in run.lanes.values():
                if not lane.is_over:
                    lane.is_over = True
                    if lane.unit is not None:
                        self.batcher.discard(lane.unit)
                    self._release(lane)
            run.stop()
        self._roomless = deque(lane for lane in self._roomless if not lane.is_over)
        self.results[request.id] = result_of(request, self.schedule)
        request.runs = {}

    def _release(self, lane: Lane) -> None:
        lane.node.bound.loop.release(lane.state)
        self._give_room()

    def _give_room(self) -> None:
        """Lets the first lane that waits for a cache try again."""
        if self._roomless:
            lane = self._roomless.popleft()
            lane.node.wake_lane(lane)


def describe(error: Exception) -> str:
    """One line for an error of a loop, an op or an expert."""
    text = " ".join(str(error).split()) or "no message"
    return text if isinstance(error, ValueError) else f"{type(error).__name__}: {text}"
