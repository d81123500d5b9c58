"""Submit, step, cancel, hold, preempt and break in any order: every request ends once and all is freed."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import Any

import torch
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

import omniflow
from omniflow import Limits, Piece, Schedule, State
from omniflow.bind import bind
from omniflow.roles import TokenRows
from tests.runtime.faults import FaultyLanguage
from tests.runtime.program import PROMPTS, alone, speech

BROKEN = "zzz"  # prompts that begin so break the thinker after a few tokens


def is_broken(row: TokenRows) -> bool:
    """Rows of broken prompts are known by their length: no other prompt is opened for so many positions."""
    sequence: Any = row.sequence
    return len(sequence.past) > 90 and sequence.num_cached > 5


@cache
def crowded() -> Schedule:
    """A cache for hardly more than one request."""
    return replace(speech(), caches=tuple(replace(cache, max_bytes=128 * 64) for cache in speech().caches))


class Serving(RuleBasedStateMachine):
    aside_bytes = 1 << 20

    def __init__(self) -> None:
        super().__init__()
        thinker = FaultyLanguage(bind(crowded()).experts["thinker"], is_broken, "raise")
        limits = Limits(width=3, running=4, step_tokens=9, min_prefill=2, aside_bytes=self.aside_bytes)
        self.engine = omniflow.load(crowded(), experts={"thinker": thinker}, limits=limits)
        self.live: dict[int, tuple[str, int]] = {}
        self.pieces: dict[int, list[Piece]] = {}
        self.ended: dict[int, State] = {}
        self.cancelled: set[int] = set()

    @rule(
        prompt=st.sampled_from(PROMPTS),
        seed=st.integers(0, 1),
        breaks=st.booleans(),
        late=st.booleans(),
        priority=st.integers(0, 2),
    )
    def submit(self, prompt: str, seed: int, breaks: bool, late: bool, priority: int) -> None:
        pieces: list[Piece] = []
        prompt = BROKEN + prompt if breaks else prompt
        request = self.engine.submit(
            {"prompt": prompt},
            seed=seed,
            priority=priority,
            listener=pieces.append,
            deadline=0.0 if late else None,
            params={"think.max_tokens": 90} if breaks else None,
        )
        self.live[request], self.pieces[request] = (prompt, seed), pieces
        if late:
            self.cancelled.add(request)

    @rule(prompts=st.permutations(PROMPTS[:3]), count=st.integers(5, 40))
    def overtake(self, prompts: list[str], count: int) -> None:
        for priority, prompt in enumerate(prompts):
            self.submit(prompt=prompt, seed=0, breaks=False, late=False, priority=priority)
            self.step(count=count)

    @precondition(lambda self: self.live)
    @rule(count=st.integers(1, 40))
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

    @precondition(lambda self: self.live)
    @rule(data=st.data(), is_held=st.booleans())
    def hold(self, data: st.DataObject, is_held: bool) -> None:
        self.engine.hold(data.draw(st.sampled_from(sorted(self.live))), is_held=is_held)

    def gather(self) -> None:
        for request in list(self.live):
            result = self.engine.result(request)
            if result is None:
                continue
            prompt, seed = self.live.pop(request)
            assert request not in self.ended
            self.ended[request] = result.state
            if result.state is State.DONE:
                text, audio = alone(prompt, seed)
                assert result.outputs["text"] == text
                assert torch.equal(result.outputs["audio"], audio)
                assert "".join(p.data for p in self.pieces[request] if p.output == "text") == text
            elif result.state is State.FAILED:
                assert prompt.startswith(BROKEN)
                assert "the expert broke" in str(result.error)
            else:
                assert result.state in (State.CANCELLED, State.REFUSED)
                assert request in self.cancelled

    @invariant()
    def limits_hold(self) -> None:
        assert len(self.engine.running) <= 4
        assert self.engine.num_submitted == len(self.live) + len(self.ended)

    @invariant()
    def idle_means_empty(self) -> None:
        if self.engine.is_idle:
            assert self.engine.live == 0
            self.engine.bound.pools.check()

    def teardown(self) -> None:
        for request in self.live:
            self.engine.hold(request, is_held=False)
        for _ in range(100_000):
            if self.engine.is_idle:
                break
            self.engine.step()
            self.gather()
        self.gather()
        assert not self.live
        assert self.engine.live == 0
        self.engine.bound.pools.check()


Serving.TestCase.settings = settings(
    max_examples=15, stateful_step_count=20, deadline=None, suppress_health_check=list(HealthCheck)
)
TestServing = Serving.TestCase


class ServingAnew(Serving):
    aside_bytes = -1  # nothing can be set aside, so that who gives way begins anew


ServingAnew.TestCase.settings = settings(Serving.TestCase.settings, max_examples=8)
TestServingAnew = ServingAnew.TestCase
