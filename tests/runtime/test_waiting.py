"""Who waits for what a stuck call holds, and how the engine waits: without spinning, and not for ever."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import pytest

import omniflow
from omniflow import Ended, Engine, Limits, Piece, State, execution
from omniflow.bind import bind
from omniflow.deadlines import SLACK, Deadlines
from omniflow.roles import StepResult, TokenRows
from tests.runtime.faults import FaultyLanguage
from tests.runtime.program import PROGRAM, PROMPTS, alone, assert_same, engine

UNIT_SECONDS = 1.0  # far more than a unit of these experts takes on a busy machine
MOST_STEPS = 2_000  # of a request that waits in between; an engine that spins makes a hundred times as many


class Gated(FaultyLanguage):
    """A language model whose first step waits for a gate."""

    def __init__(self, expert: Any) -> None:
        super().__init__(expert, lambda row: False, "none")
        self.gate, self.num_steps = threading.Event(), 0

    def step(self, rows: Sequence[TokenRows]) -> list[StepResult]:
        self.num_steps += 1
        if self.num_steps == 1:
            self.gate.wait(20)
        return super().step(rows)


Stuck = tuple[Engine, threading.Event]


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Requests without a deadline wait half a second, not nine, for a call that was given up."""
    assert execution.PATIENCE == 10
    monkeypatch.setattr(execution, "PATIENCE", 1.5)


@pytest.fixture
def stuck() -> Iterator[Stuck]:
    """An engine with a cache for one request, whose room a call holds that does not answer; and the gate it waits at.

    The cache is of the process, so all of it is given back.
    """
    schedule = engine().schedule
    schedule = replace(schedule, caches=tuple(replace(cache, max_bytes=96 * 64) for cache in schedule.caches))
    gated = Gated(bind(schedule).experts["thinker"])
    running = omniflow.load(schedule, experts={"thinker": gated}, limits=Limits(unit_seconds=UNIT_SECONDS))
    failed = running.run({"prompt": PROMPTS[0]})
    assert f"no answer within {UNIT_SECONDS:g} s" in str(failed.error)
    assert running.live == 1
    yield running, gated.gate
    gated.gate.set()
    for _ in range(1000):
        running.step()
        if running.live == 0:
            break
        time.sleep(0.005)
    assert running.live == 0
    running.bound.pools.check()


def counted(running: Engine, monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """What the engine's steps return from now on, as they come."""
    steps: list[bool] = []
    step: Callable[[], bool] = running.step

    def counting() -> bool:
        steps.append(step())
        return steps[-1]

    monkeypatch.setattr(running, "step", counting)
    return steps


def test_a_request_waits_for_room_that_a_stuck_call_holds_until_it_comes_back(
    stuck: Stuck, monkeypatch: pytest.MonkeyPatch
) -> None:
    running, gate = stuck
    steps = counted(running, monkeypatch)
    threading.Timer(0.2, gate.set).start()
    start = time.perf_counter()
    assert_same(running.run({"prompt": PROMPTS[1]}), PROMPTS[1])
    assert time.perf_counter() - start > 0.15
    assert len(steps) < MOST_STEPS
    assert running.live == 0


def test_one_without_a_deadline_fails_when_the_call_has_taken_some_times_its_limit(
    impatient: None, stuck: Stuck
) -> None:
    running, _ = stuck
    start = time.perf_counter()
    result = running.run({"prompt": PROMPTS[1]})
    assert time.perf_counter() - start > 0.3
    assert result.state is State.FAILED
    said = (
        "node think waits for room in its cache, and a call of its expert that has not answered for 1.5 s may hold it"
    )
    assert said in str(result.error)


def test_one_with_a_deadline_waits_until_then(impatient: None, stuck: Stuck) -> None:
    running, _ = stuck
    start = time.perf_counter()
    result = running.run({"prompt": PROMPTS[1]}, deadline=1.2)
    assert time.perf_counter() - start > 1.15
    assert (result.state, result.error) == (State.CANCELLED, "its deadline passed")


def test_a_stream_is_woken_when_a_stuck_call_comes_back(stuck: Stuck, monkeypatch: pytest.MonkeyPatch) -> None:
    running, gate = stuck
    steps = counted(running, monkeypatch)

    async def text() -> str:
        threading.Timer(0.2, gate.set).start()
        found = ""
        async for event in running.stream({"prompt": PROMPTS[1]}, outputs=["text"]):
            if isinstance(event, Ended):
                assert event.result.state is State.DONE, event.result.error
            elif event.data is not None:
                found += event.data
        return found

    assert asyncio.run(asyncio.wait_for(text(), timeout=20)) == alone(PROMPTS[1])[0]
    assert len(steps) < MOST_STEPS


def test_a_run_that_its_own_listener_holds_fails_and_names_the_output() -> None:
    running = engine()

    def hold(piece: Piece) -> None:
        running.hold(piece.request, is_held=True)

    result = running.run({"prompt": PROMPTS[0]}, listener=hold)
    assert result.state is State.FAILED
    assert "its listener holds output audio (join.samples) and output text (reply.text) back" in str(result.error)
    assert "use `stream`, or `submit` and `step`" in str(result.error)
    assert str(result.error).startswith("specs/null/speech.program.yaml:11:3: ")
    assert running.live == 0
    assert_same(running.run({"prompt": PROMPTS[1]}), PROMPTS[1])


def test_a_listener_that_lets_go_on_before_the_engine_is_idle_changes_nothing() -> None:
    running = engine()

    def hold_for_a_moment(piece: Piece) -> None:
        running.hold(piece.request, is_held=True)
        running.post_hold(piece.request, is_held=False)

    assert_same(running.run({"prompt": PROMPTS[0]}, listener=hold_for_a_moment), PROMPTS[0])


def test_a_run_that_waits_for_another_client_to_read_sleeps(monkeypatch: pytest.MonkeyPatch) -> None:
    schedule = engine().schedule
    channels = tuple(replace(ch, capacity=2) if ch.node == "reply" else ch for ch in schedule.channels)
    caches = tuple(replace(cache, max_bytes=96 * 64) for cache in schedule.caches)
    running = omniflow.load(replace(schedule, channels=channels, caches=caches))
    silent = running.submit({"prompt": PROMPTS[0]})
    for _ in range(20):
        running.step()
    running.hold(silent, is_held=True)
    running.running[silent].is_spared = True  # it keeps its room
    while running.step():
        pass
    steps = counted(running, monkeypatch)
    threading.Timer(0.2, running.post_hold, (silent,), {"is_held": False}).start()
    assert_same(running.run({"prompt": PROMPTS[1]}), PROMPTS[1])
    assert len(steps) < MOST_STEPS
    assert_same(running.result(silent), PROMPTS[0])


def test_far_deadlines_of_requests_that_have_ended_take_no_memory() -> None:
    running = engine()
    waiting = running.submit({"prompt": PROMPTS[0]}, deadline=1e9)
    for _ in range(5 * SLACK):
        request = running.submit({"prompt": "Hm"}, deadline=1e6)
        running.cancel(request)
        running.step()
        assert running.result(request) is not None
        assert len(running.mail.deadlines) <= SLACK + 4
    running.cancel(waiting)
    running.step()
    assert running.is_idle


def test_deadlines_pass_in_order_and_once_and_those_forgotten_do_not() -> None:
    deadlines = Deadlines()
    for request in range(300):
        deadlines.expect(request, float(300 - request))
    for request in range(0, 300, 2):
        deadlines.forget(request)
        deadlines.forget(request)
    assert deadlines.passed(0.5) == []
    assert deadlines.passed(100.0) == list(range(299, 199, -2))
    assert deadlines.passed(1000.0) == list(range(199, 0, -2))
    assert deadlines.passed(1000.0) == []
    assert len(deadlines) == 0
    assert deadlines.next is None


def test_who_finds_the_room_taken_by_another_engine_of_the_process_is_told_so() -> None:
    schedule = omniflow.compile(PROGRAM.with_name("columns.program.yaml"))
    schedule = replace(schedule, caches=tuple(replace(cache, max_bytes=160 * 64) for cache in schedule.caches))
    first, second = omniflow.load(schedule), omniflow.load(schedule)
    mine = first.submit({"prompt": "Air"}, params={"compose.max_tokens": 60})
    while first.bound.pools.live < 2:
        first.step()
    for need, max_tokens, guidance in (("80 positions", 76, 1.0), ("2 sequences of 24 positions", 20, 2.0)):
        params = {"compose.max_tokens": max_tokens, "compose.cfg": guidance}
        error = second.run({"prompt": "Air"}, params=params).error
        assert error is not None
        assert f"it needs {need} and the cache of composer has 32 free: 2 sequences of other engines of this" in error
        assert second.live == 0
    first.cancel(mine)
    while not first.is_idle:
        first.step()
    assert second.run({"prompt": "Air"}).state == "done"
