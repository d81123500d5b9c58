"""What goes wrong on purpose goes wrong for one request, is said once, and leaves nothing behind."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from typing import Any

import pytest
import torch

import omniflow
from omniflow import BindError, Engine, Limits, State
from omniflow.roles import StepResult, TokenRows
from tests.runtime.faults import FaultyLanguage, engine_with
from tests.runtime.program import PROMPTS, alone, assert_same, drain, speech

NODES = ("tokenize", "think", "reply", "segment", "spell", "speak", "phrase", "voice", "wave", "join")
EDGES = [channel.id for channel in speech().channels if "~>" in channel.id]


def faulty(*faults: dict[str, Any], limits: Limits | None = None) -> Engine:
    return omniflow.load(speech(), profile="test", faults=faults, limits=limits)


@pytest.mark.parametrize("node", NODES)
@pytest.mark.parametrize("kind", ["raise", "nan", "wrong_shape", "oom"])
def test_a_fault_at_a_node_fails_its_request_alone(node: str, kind: str) -> None:
    running = faulty({"at": node, "kind": kind, "request": 1})
    ids = [running.submit({"prompt": prompt}) for prompt in PROMPTS[:3]]
    drain(running)
    results = [running.result(request) for request in ids]
    assert_same(results[0], PROMPTS[0])
    assert_same(results[2], PROMPTS[2])
    failed = results[1]
    assert failed is not None
    assert failed.state is State.FAILED
    place = speech().node(node).place
    assert str(failed.error).startswith(f"{place}: node {node}: unit 0: ")
    assert "on purpose" in str(failed.error)
    assert running.live == 0
    running.bound.pools.check()


@pytest.mark.parametrize("edge", EDGES)
@pytest.mark.parametrize("kind", ["drop", "delay", "duplicate", "empty", "error"])
def test_a_fault_on_an_edge_ends_its_request_and_no_other(edge: str, kind: str) -> None:
    running = faulty({"at": edge, "kind": kind, "request": 1, "number": 1})
    ids = [running.submit({"prompt": prompt}) for prompt in PROMPTS[:2]]
    drain(running)
    assert_same(running.result(ids[0]), PROMPTS[0])
    result = running.result(ids[1])
    assert result is not None
    assert result.state in (State.DONE, State.FAILED)
    if kind == "error" and result.state is State.FAILED:
        assert f"edge {edge} failed on purpose" in str(result.error)
    assert running.live == 0
    running.bound.pools.check()


def test_a_piece_that_is_late_changes_nothing_and_a_lost_one_does() -> None:
    late = faulty({"at": "reply.text ~> segment.text", "kind": "delay", "number": 2}).run({"prompt": PROMPTS[0]})
    lost = faulty({"at": "reply.text ~> segment.text", "kind": "drop", "number": 2}).run({"prompt": PROMPTS[0]})
    assert lost.state is State.DONE
    assert lost.outputs["text"] == alone(PROMPTS[0])[0]
    assert lost.outputs["audio"].shape != alone(PROMPTS[0])[1].shape
    assert late.state is State.DONE


def test_faults_are_refused_outside_tests_and_must_name_what_is_there() -> None:
    fault = {"at": "think", "kind": "raise"}
    with pytest.raises(BindError, match="faults are for profile test, not for serve"):
        omniflow.load(speech(), faults=[fault])
    for wrong in (
        {"at": "thinc", "kind": "raise"},
        {"at": "think", "kind": "drop"},
        {"at": "think", "kind": "explode"},
    ):
        with pytest.raises(BindError, match="no such"):
            faulty(wrong)
    with pytest.raises(BindError, match="a fault has at, kind, number and request"):
        faulty({"at": "think", "kind": "raise", "chance": 0.5})
    with pytest.raises(BindError, match="needs a limit of unit_seconds"):
        faulty({"at": "think", "kind": "hang"})


def test_a_hang_on_purpose_fails_its_request_after_the_limit() -> None:
    running = faulty({"at": "wave", "kind": "hang", "request": 0}, limits=Limits(unit_seconds=0.05))
    ids = [running.submit({"prompt": prompt}) for prompt in PROMPTS[:2]]
    drain(running)
    failed = running.result(ids[0])
    assert failed is not None
    assert "node wave: unit 0: InjectedFault: no answer within 0.05 s" in str(failed.error)
    assert_same(running.result(ids[1]), PROMPTS[1])


class Hanging:
    """A language model whose steps wait for a gate when a long sequence is among their rows."""

    def __init__(self, expert: Any) -> None:
        self.language = FaultyLanguage(expert, lambda row: row.sequence.num_cached >= 24, "none")
        self.gate = threading.Event()

    vocab_size = property(lambda self: self.language.vocab_size)
    start_ids = property(lambda self: self.language.start_ids)

    def open(self, conditions: Any, *, max_positions: int) -> Any:
        return self.language.open(conditions, max_positions=max_positions)

    def close(self, sequence: Any) -> None:
        self.language.close(sequence)

    def step(self, rows: Sequence[TokenRows]) -> list[StepResult]:
        if any(self.language.is_bad(row) for row in rows):
            self.gate.wait(20)
        return self.language.step(rows)


def test_an_expert_that_does_not_answer_fails_its_request_and_lets_go_when_it_comes_back() -> None:
    running = engine_with("thinker", Hanging, limits=Limits(unit_seconds=0.2))
    params = {"think.max_tokens": 12}
    ids = [running.submit({"prompt": prompt}, params=params) for prompt in (PROMPTS[2], "Hm")]
    drain(running)
    failed, other = (running.result(request) for request in ids)
    assert failed is not None
    assert other is not None
    assert "node think: unit" in str(failed.error)
    assert "no answer within 0.2 s" in str(failed.error)
    assert other.state is State.DONE, other.error
    assert (
        running.live == 2
    )  # what the call may still write to is not given away: one call of both rows, one of the first
    running.bound.experts["thinker"].gate.set()
    for _ in range(200):
        running.step()
        if running.live == 0:
            break
        time.sleep(0.01)
    assert running.live == 0
    running.bound.pools.check()
    again = running.run({"prompt": "Hm"}, params=params)
    assert torch.equal(again.outputs["audio"], other.outputs["audio"])


class HangingEachForItself(Hanging):
    """The same, but every call that hangs has a gate of its own."""

    def __init__(self, expert: Any) -> None:
        super().__init__(expert)
        self.gates: list[threading.Event] = []

    def step(self, rows: Sequence[TokenRows]) -> list[StepResult]:
        if any(self.language.is_bad(row) for row in rows):
            self.gates.append(gate := threading.Event())
            gate.wait(20)
        return self.language.step(rows)


def step_until(running: Engine, live: int) -> None:
    for _ in range(200):
        if running.live == live:
            return
        running.step()
        time.sleep(0.005)
    raise AssertionError(f"{running.live} live, not {live}")


def test_a_row_that_two_calls_may_still_touch_is_kept_until_both_are_back() -> None:
    running = engine_with("thinker", HangingEachForItself, limits=Limits(unit_seconds=0.1))
    for prompt in (PROMPTS[2], "Hm"):
        running.submit({"prompt": prompt}, params={"think.max_tokens": 12})
    drain(running)
    both, alone_again = running.bound.experts["thinker"].gates  # one call of both rows, one of the first
    assert running.live == 2
    both.set()
    step_until(running, 1)
    alone_again.set()
    step_until(running, 0)
    running.bound.pools.check()


def test_a_time_limit_changes_no_result() -> None:
    running = omniflow.load(speech(), limits=Limits(unit_seconds=60.0))
    ids = [running.submit({"prompt": prompt}) for prompt in PROMPTS]
    drain(running)
    for request, prompt in zip(ids, PROMPTS, strict=True):
        assert_same(running.result(request), prompt)
