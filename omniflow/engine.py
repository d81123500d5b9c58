"""The engine: runs many requests at once, a batch of work units at a time. `Engine.step` is the whole of it.

Where to read on: requests wait in the `lobby`; what clients ask of them comes by `mail`; the `conductor` asks their
nodes for units and folds results in (`endings`: how they end; `rooms` and `preemption`: who waits for a cache and who
gives one up); the `batcher` chooses whose turn it is; the executor (`execution`) calls the expert.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from typing import Any

from omniflow.admission import reason_to_refuse
from omniflow.agenda import Agenda
from omniflow.batcher import Batcher, Limits
from omniflow.bind import Bound, check_loops
from omniflow.census import count_live
from omniflow.conductor import Conductor
from omniflow.endings import describe
from omniflow.errors import InputError
from omniflow.execution import Executor
from omniflow.faults import read_faults
from omniflow.inputs import check_inputs, check_outputs, check_turn
from omniflow.lobby import Lobby
from omniflow.mail import Mail
from omniflow.metrics import Metrics
from omniflow.params import check_params
from omniflow.pump import Mailbox, Pump
from omniflow.record import hold_of, result_of, stall_of
from omniflow.request import Request, Result, State
from omniflow.rng import DERIVED, own_generator
from omniflow.stream import Ended, Piece
from omniflow.trace import LevelEvent, Trace
from omniflow.wiring import build


class Engine:
    """Runs the program of one loaded schedule. Make it with `omniflow.load`.

    One thread steps it; `submit` and `cancel` may come from others.
    """

    def __init__(
        self,
        bound: Bound,
        *,
        limits: Limits | None = None,
        profile: str = "serve",
        trace: bool = False,
        faults: Sequence[Mapping[str, Any]] = (),
    ) -> None:
        self.bound = bound
        self.schedule = bound.schedule
        self.limits = limits or Limits()
        self.profile = profile
        self.trace = Trace([pool.name for pool in bound.pools.pools]) if trace else None
        self.agenda = Agenda(self.trace)
        self.batcher = Batcher(self.limits, self.agenda.recheck)
        self.lobby = Lobby(self.limits, self.now)
        self.running: dict[int, Request] = {}  # those that have been let in, by id
        self.conductor = Conductor(self.agenda, self.batcher, self.running, self._on_end, self._on_anew)
        unit_seconds = self.limits.unit_seconds
        self.faults = read_faults(faults, bound.schedule, profile=profile, unit_seconds=unit_seconds)
        self.mail = Mail()
        self.executor = Executor(unit_seconds=unit_seconds, faults=self.faults, on_back=self.mail.ring)
        self.metrics = Metrics()
        self.results: dict[int, Result] = {}
        self.num_submitted = 0
        self._pump = Pump(self)
        bound.pools.prepare(is_invariant=self.limits.batch_invariant, aside_bytes=self.limits.aside_bytes)

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
        session: int | None = None,
        outputs: Sequence[str] | None = None,
    ) -> int:
        """Queues a request and returns its id; one that can never be served has ended as refused already.

        params: `node.attribute` to value, over the schedule's own. rng: `derived`, or `torch` to draw all its numbers
        from one torch generator, node after node. deadline: seconds from now. priority: higher ones are let in first.
        listener: called with every piece of every output from within `step`. keep: whether the result has the outputs.
        session: whose next turn it is; turns of a session run one after another, in order of submission.
        outputs: those that are wanted, by default all; nodes that lead to no other do not run.
        Errors: InputError, BusyError.
        """
        values = check_inputs(self.schedule, inputs)
        own = check_params(self.schedule, params or {}, self.bound.vocabularies)
        check_loops(self.bound, own)
        wanted = check_outputs(self.schedule, outputs)
        check_turn(priority=priority, deadline=deadline)
        with self.lobby.lock:
            request = Request(
                self.num_submitted,
                inputs=values,
                seed=seed,
                generator=own_generator(rng, seed),
                params=own,
                submitted=self.now(),
                deadline=deadline,
                priority=priority,
                rollout=self.profile == "rollout",
                keep=keep,
                listener=listener,
                session=None if session is None else self.lobby.sessions.get(session),
                outputs=wanted,
            )
            refusal = reason_to_refuse(self.schedule, deadline)
            if refusal is None:
                self.lobby.enter(request)
            self.num_submitted += 1
        if refusal is not None:
            self.conductor.endings.end(request, State.REFUSED, refusal)
        elif deadline is not None:
            self.mail.deadlines.expect(request.id, request.submitted + deadline)
            if request.state.is_end:  # meanwhile, in the engine's thread
                self.mail.deadlines.forget(request.id)
        self.mail.wake()
        return request.id

    def session(self) -> int:
        """Opens a session and returns its id: its turns go on from what the turns before have left.

        Errors: InputError when no loop of the program keeps sessions; BusyError when as many as may be are in use.
        """
        if not any(node.onward for node in self.bound.nodes):
            raise InputError(f"{self.schedule.program} has no loop that keeps sessions (`session: true` in its card)")
        return self.lobby.sessions.open().id

    def close_session(self, session_id: int) -> None:
        """Ends a session and cancels its turns. Errors: InputError for one that is not open."""
        session = self.lobby.sessions.get(session_id)
        self.lobby.sessions.close(session)
        for request in list(session.turns):
            self.cancel(request.id)

    def cancel(self, request_id: int) -> None:
        """Ends a request at the next unit boundary; one that has ended stays as it is."""
        self.mail.cancel(request_id)

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
        session: int | None = None,
    ) -> Result:
        """Submits one request and steps until it has ended. Errors: InputError, BusyError.

        A listener that holds its outputs back fails it: nobody could let them go on while this thread is in here.
        """
        request_id = self.submit(
            inputs, seed=seed, params=params, rng=rng, deadline=deadline, listener=listener, session=session
        )
        while request_id not in self.results:
            if not self.step() and request_id not in self.results:
                self._wait_for(request_id)
        return self.results.pop(request_id)

    def sleep(self) -> None:
        """After a step that found nothing to do: until something comes that the next one must hear.

        That is mail, a request from another thread, a deadline, or a call that had been given up and comes back. It
        returns at once where no request is left.
        """
        if not self.is_idle:
            self.mail.sleep(self.seconds_to_sleep())

    def seconds_to_sleep(self) -> float | None:
        """How long there is nothing to do unless something comes; None for ever."""
        at = self.mail.deadlines.next
        ends = (None if at is None else max(at - self.now(), 0.0), self.executor.seconds_of_patience())
        return min((seconds for seconds in ends if seconds is not None), default=None)

    async def stream(
        self,
        inputs: Mapping[str, Any],
        *,
        seed: int = 0,
        params: Mapping[str, Any] | None = None,
        deadline: float | None = None,
        priority: int = 0,
        capacity: int = 64,
        session: int | None = None,
        outputs: Sequence[str] | None = None,
        keep: bool = False,
    ) -> AsyncIterator[Piece | Ended]:
        """The request's pieces as they come, then `Ended` with its result, which has the outputs only under `keep`.

        A client that does not read is waited for once `capacity` pieces lie ready; one that leaves cancels its request.
        Errors: InputError, BusyError, before the first event.
        """
        box = Mailbox(self, capacity)
        box.request = self.submit(
            inputs, seed=seed, params=params, deadline=deadline, priority=priority, listener=box.put, keep=keep,
            session=session, outputs=outputs,
        )  # fmt: skip
        async for event in self._pump.listen(box):
            yield event

    def hold(self, request_id: int, *, is_held: bool) -> None:
        """Holds back what feeds a request's outputs, or lets it go on; between steps or from a listener."""
        request = self._find(request_id)
        for outlet in request.outlets.values() if request is not None else ():
            outlet.set_full(is_held)

    def post_hold(self, request_id: int, *, is_held: bool) -> None:
        """The same from another thread: it takes effect at the next step."""
        self.mail.hold(request_id, is_held=is_held)

    def invalidate(self, component: str) -> None:
        """A component's weights are not what they were: what was kept of what it gave is dropped, and of nothing else.

        Errors: InputError for a component that the schedule does not name.
        """
        if component not in self.bound.experts:
            raise InputError(f"{self.schedule.program} has no component {component}")
        self.bound.stores.update(component)

    @property
    def is_idle(self) -> bool:
        """Whether no request waits or runs."""
        return not self.lobby.waiting and not self.running

    @property
    def live(self) -> int:
        """What is held for requests, counted anew (`census`). 0 when idle."""
        return count_live(self)

    @property
    def kept(self) -> int:
        """What outlives requests, counted anew: memories of sessions, finished sequences, features."""
        return self.lobby.sessions.num_memories + self.bound.stores.num_kept

    def now(self) -> float:
        """Seconds since the engine was made."""
        return self.agenda.now()

    # -- the step --------------------------------------------------------------------------------------------------

    def step(self) -> bool:
        """Hears what must end, admits what waits, collects what is ready, runs a batch of it and folds its results in.

        Returns whether there was anything to do.
        """
        self._hear()
        self._admit()
        self.conductor.collect()
        units = self.batcher.take()
        if not units:
            return self._settle()
        outcome = self.executor.run(units)
        self.metrics.batch(units, outcome.seconds)
        self._tick()
        self.conductor.fold(units, outcome)
        return True

    def _tick(self) -> None:
        """Sets the clock that everything goes by until the next tick."""
        self.agenda.clock = clock = self.agenda.now()
        if self.trace is not None:
            used = tuple(pool.live for pool in self.bound.pools.pools)
            self.trace.levels.append(LevelEvent(clock, len(self.lobby.waiting), len(self.running), used))

    def _hear(self) -> None:
        """Cancels, deadlines, clients that read again, and calls that come back late."""
        self._tick()
        self.lobby.sessions.expire()
        if self.executor.lost:
            self.conductor.endings.come_back(self.executor.come_back())
        if self.mail.has_come(self.agenda.clock):
            self._read(self.agenda.clock)

    def _read(self, now: float) -> None:
        """Does what has come by mail."""
        for request_id, is_held in self.mail.holds():
            self.hold(request_id, is_held=is_held)
        for request_id, reason in self.mail.ends(now):
            request = self._find(request_id)
            if request is not None:
                self.conductor.endings.end(request, State.CANCELLED, reason)

    def _find(self, request_id: int) -> Request | None:
        """A request that has not ended."""
        return self.running.get(request_id) or self.lobby.waiting.get(request_id)

    def _admit(self) -> None:
        """As many at once as the limits allow."""
        while self.lobby.queue.num_ready and len(self.running) < self.limits.running:
            request = self.lobby.take()
            request.state = State.RUNNING
            request.started = self.agenda.clock if request.started is None else request.started
            self.running[request.id] = request
            try:
                build(request, self.bound, self.agenda, self.faults)
            except ValueError as error:
                self.conductor.endings.end(request, State.REFUSED, describe(error))
            else:
                if not request.runs:
                    self.conductor.endings.end(request, State.DONE)

    def _settle(self) -> bool:
        """Nothing is ready. Those whose clients do not read are `held` and go on later, and with them who is patient:

        waits for room that a held one has, or a call that does not answer. All others are stalled: they would wait for
        ever, so they fail and say for what, unless one of them can give another its room.
        """
        held = [request for request in self.running.values() if request.is_held_back]
        stalled = [request for request in self.running.values() if not request.is_held_back]
        if self.conductor.preemption.relieve(stalled, held):
            return True
        patient = self.conductor.preemption.patient(held, stalled, self.executor.lost)
        stalled = [request for request in stalled if request not in patient]
        for request in stalled:
            self.conductor.endings.end(request, State.FAILED, stall_of(request, self.executor.lost))
        return bool(stalled or (self.lobby.queue.num_ready and len(self.running) < self.limits.running))

    def _wait_for(self, request_id: int) -> None:
        """There is nothing to do for a request of `run`; one that its own listener holds back would wait for ever."""
        request = self._find(request_id)
        if request is not None and request.is_held_back and not self.mail.has_come(self.now()):
            self.conductor.endings.end(request, State.FAILED, hold_of(request))
        else:
            self.sleep()

    def _on_anew(self, request: Request) -> None:
        """A request that gave its room to another begins anew: it waits again."""
        del self.running[request.id]
        self.lobby.put_back(request)

    def _on_end(self, request: Request) -> None:
        """Keeps a request's result for who asks for it."""
        result = result_of(request, self.schedule)  # it may turn out to have failed
        self.running.pop(request.id, None)
        self.lobby.leave(request)
        self.mail.deadlines.forget(request.id)
        self.metrics.end(request)
        self.results[request.id] = result
