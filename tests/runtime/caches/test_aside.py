"""What a sequence has cached goes to host memory and comes back, bit for bit, wherever in the arena it then lies."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

import omniflow
from omniflow.experts import lean
from omniflow.pool import Pool
from omniflow.roles import SequenceState, TokenRows
from tests.runtime.caches.programs import TALK_CARD, TOKENS, compile_in
from tests.runtime.caches.test_lean_prefixes import CONFIG, ids, needs_native
from tests.runtime.program import drain

NATIVE = pytest.mark.parametrize("native", [pytest.param(True, marks=needs_native), False])


def made(*, native: bool, cache_tokens: int = 96) -> tuple[Pool, lean.LeanDecoder]:
    torch.set_num_threads(1)
    model = lean.random(CONFIG, seed=1, cache_tokens=cache_tokens, native=native)
    return Pool("thinker", model), model


def opened(pool: Pool, positions: int) -> SequenceState:
    sequence = pool.open({}, max_positions=positions)
    assert sequence is not None
    return sequence


def logits_of(model: lean.LeanDecoder, sequence: SequenceState, tokens: Tensor) -> Tensor:
    logits = model.step([TokenRows(sequence=sequence, ids=tokens)])[0].logits
    assert logits is not None
    return logits.clone()


@NATIVE
def test_a_sequence_that_was_set_aside_goes_on_as_if_it_had_stayed(native: bool) -> None:
    pool, model = made(native=native)
    stays, moves = opened(pool, 32), opened(pool, 32)
    for sequence in (stays, moves):
        logits_of(model, sequence, ids(20, 2))
    assert pool.set_aside(moves)
    pool.check()
    assert not pool.is_here(moves)
    other = opened(pool, 48)  # where it was, and the next block
    logits_of(model, other, ids(40, 3))
    pool.close(stays)
    again = opened(pool, 16)
    assert not pool.bring_back(moves)
    pool.close(again)
    assert pool.bring_back(moves)
    pool.check()
    pool.close(other)
    stays = opened(pool, 32)
    logits_of(model, stays, ids(20, 2))
    assert torch.equal(logits_of(model, stays, ids(1, 4)), logits_of(model, moves, ids(1, 4)))
    for sequence in (stays, moves):
        pool.close(sequence)
    assert pool.live == 0
    pool.check()


def test_what_would_take_more_host_memory_than_allowed_stays() -> None:
    pool, model = made(native=False)
    pool.aside_bytes = 2 * 3 * 20 * 2 * 8 * 4  # keys and values of 20 tokens in 3 layers, 2 heads of 8, float32
    first, second = opened(pool, 32), opened(pool, 32)
    for sequence in (first, second):
        logits_of(model, sequence, ids(20, 2))
    assert pool.set_aside(first)
    assert not pool.set_aside(second)
    assert pool.is_here(second)
    pool.check()


def test_one_that_is_set_aside_can_be_closed() -> None:
    pool, model = made(native=False)
    sequence = opened(pool, 32)
    logits_of(model, sequence, ids(20, 2))
    assert pool.set_aside(sequence)
    pool.close(sequence)
    assert pool.live == 0
    pool.check()


@NATIVE
@pytest.mark.parametrize("at", [2, 9, 20])
def test_a_request_that_gives_its_room_away_in_the_middle_says_the_same(native: bool, at: int) -> None:
    torch.set_num_threads(1)
    model = lean.random(CONFIG, seed=1, cache_tokens=64, native=native)
    card = TALK_CARD.format(loop="", cache=", reuse: prefix", size="64 KiB")
    running = omniflow.load(compile_in(card, TOKENS), experts={"thinker": model})
    inputs = [{"prompt": ids(24, seed)} for seed in (9, 8)]
    alone = [running.run(each).outputs["tokens"] for each in inputs]
    low = running.submit(inputs[0])
    for _ in range(at):
        running.step()
    high = running.submit(inputs[1], priority=1)
    drain(running)
    first, second = running.result(low), running.result(high)
    assert first is not None
    assert second is not None
    assert first.record["preempted"] == {"times": 1, "units": 0}
    assert torch.equal(first.outputs["tokens"], alone[0])
    assert torch.equal(second.outputs["tokens"], alone[1])
    running.bound.pools.check()
