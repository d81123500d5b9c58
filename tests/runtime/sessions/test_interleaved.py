"""Whatever else runs, is cancelled, opened, closed or needs room, a session answers as if it were alone."""

from __future__ import annotations

from functools import cache

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

import omniflow
from omniflow import Limits, State
from tests.runtime.caches.programs import talk

TEXTS = ("Why is the sky blue?", "And the grass?", "Hm", "Who sat on my mat, and why?")


@cache
def answer(turns: tuple[str, ...]) -> str:
    """The answer to the last of these turns, by a session of an engine of its own."""
    running = omniflow.load(talk(loop=", session: true", reuse=False))
    session = running.session()
    return [running.run({"prompt": text}, session=session).outputs["text"] for text in turns][-1]


class Talking(RuleBasedStateMachine):
    aside_bytes = 1 << 20

    def __init__(self) -> None:
        super().__init__()
        self.engine = omniflow.load(
            talk(loop=", session: true", size="24 KiB"),
            limits=Limits(width=3, running=4, step_tokens=9, min_prefill=2, aside_bytes=self.aside_bytes),
        )
        self.engine.bound.stores.drop()
        self.done: dict[int, list[str]] = {}  # by session: the turns that are done
        self.live: dict[int, tuple[int, str]] = {}  # by request: its session and text
        self.cancelled: set[int] = set()

    @precondition(lambda self: len(self.done) < 4)
    @rule()
    def open(self) -> None:
        self.done[self.engine.session()] = []

    @precondition(lambda self: self.done)
    @rule(data=st.data(), text=st.sampled_from(TEXTS), priority=st.integers(0, 2))
    def say(self, data: st.DataObject, text: str, priority: int) -> None:
        session = data.draw(st.sampled_from(sorted(self.done)))
        if len(self.done[session]) < 4:
            self.live[self.engine.submit({"prompt": text}, session=session, priority=priority)] = session, text

    @rule(count=st.integers(1, 60))
    def step(self, count: int) -> None:
        for _ in range(count):
            self.engine.step()
            self.gather()

    @precondition(lambda self: self.live)
    @rule(data=st.data())
    def cancel(self, data: st.DataObject) -> None:
        request = data.draw(st.sampled_from(sorted(self.live)))
        self.engine.cancel(request)
        self.cancelled.add(request)

    @precondition(lambda self: self.done)
    @rule(data=st.data())
    def close(self, data: st.DataObject) -> None:
        session = data.draw(st.sampled_from(sorted(self.done)))
        self.engine.close_session(session)
        self.cancelled |= {request for request, (of, _) in self.live.items() if of == session}
        del self.done[session]

    @rule()
    def renew(self) -> None:
        self.engine.invalidate("thinker")

    def gather(self) -> None:
        for request in sorted(self.live):
            result = self.engine.result(request)
            if result is None:
                continue
            session, text = self.live.pop(request)
            if result.state is State.DONE and session in self.done:
                assert result.outputs["text"] == answer((*self.done[session], text))
                self.done[session].append(text)
            elif result.state is not State.DONE:
                assert result.state is State.CANCELLED or "positions" in str(result.error), result.error
                assert request in self.cancelled or result.state is State.REFUSED

    @invariant()
    def one_turn_at_a_time(self) -> None:
        busy = [request.session.id for request in self.engine.running.values() if request.session]
        assert len(busy) == len(set(busy))

    @invariant()
    def idle_means_empty(self) -> None:
        if self.engine.is_idle:
            assert self.engine.live == 0
            assert len(self.engine.lobby.queue) == self.engine.lobby.queue.num_bytes == 0
            assert self.engine.lobby.sessions.num_memories == sum(1 for turns in self.done.values() if turns)
            self.engine.bound.pools.check()

    def teardown(self) -> None:
        for _ in range(100_000):
            if self.engine.is_idle:
                break
            self.engine.step()
            self.gather()
        self.gather()
        assert not self.live
        for session in self.done:
            self.engine.close_session(session)
        self.engine.bound.stores.drop()
        assert self.engine.live == self.engine.kept == 0
        self.engine.bound.pools.check()


Talking.TestCase.settings = settings(
    max_examples=15, stateful_step_count=20, deadline=None, suppress_health_check=list(HealthCheck)
)
TestTalking = Talking.TestCase


class TalkingAnew(Talking):
    aside_bytes = -1  # nothing can be set aside, so that who gives way begins anew


TalkingAnew.TestCase.settings = settings(Talking.TestCase.settings, max_examples=8)
TestTalkingAnew = TalkingAnew.TestCase
