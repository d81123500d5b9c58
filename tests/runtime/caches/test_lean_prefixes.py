"""On the lean decoder, what is taken over from another sequence equals what would have been computed, bit for bit."""

from __future__ import annotations

from functools import cache

import pytest
import torch
from torch import Tensor

import omniflow
from omniflow import Engine, Limits
from omniflow.experts import lean
from omniflow.native.binding import load_native
from omniflow.roles import SequenceState, TokenRows
from tests.runtime.caches.programs import TALK_CARD, TOKENS, compile_in
from tests.runtime.program import drain

CONFIG = lean.LeanConfig(
    vocab_size=317, hidden_size=16, intermediate_size=48, num_layers=3, num_heads=4, num_kv_heads=2, head_dim=8,
    norm_eps=1e-5, rope=lean.RopeConfig(theta=10_000.0),
)  # fmt: skip
needs_native = pytest.mark.skipif(load_native() is None, reason="no C++ compiler")


def ids(count: int, seed: int) -> Tensor:
    return torch.randint(4, 317, (count,), generator=torch.Generator().manual_seed(seed))


def load(decoder: lean.LeanDecoder, *, reuse: bool, limits: Limits | None = None) -> Engine:
    card = TALK_CARD.format(loop="", cache=", reuse: prefix" if reuse else "", size="64 KiB")
    return omniflow.load(compile_in(card, TOKENS), experts={"thinker": decoder}, limits=limits)


@cache
def decoder(*, native: bool) -> lean.LeanDecoder:
    return lean.random(CONFIG, seed=1, cache_tokens=512, native=native)


def opened(model: lean.LeanDecoder) -> SequenceState:
    sequence = model.open({}, max_positions=60)
    assert sequence is not None
    return sequence


@pytest.mark.parametrize("native", [pytest.param(True, marks=needs_native), False])
@pytest.mark.parametrize("steps", [[25], [1, 8, 25], [16, 32], [39]])
def test_a_sequence_that_begins_as_another_did_goes_on_as_if_it_were_its_own(native: bool, steps: list[int]) -> None:
    torch.set_num_threads(1)
    model, prompt = decoder(native=native), ids(40, 2)
    source, target = opened(model), opened(model)
    whole = model.step([TokenRows(sequence=source, ids=prompt)])[0].logits
    for stop in steps:
        model.fork(source, target, stop)
    assert target.num_cached == steps[-1]
    rest = model.step([TokenRows(sequence=target, ids=prompt[steps[-1] :])])[0].logits
    assert whole is not None
    assert rest is not None
    if native:
        assert torch.equal(whole, rest)
    assert torch.allclose(whole, rest, atol=1e-4)
    model.close(source)
    model.close(target)


def test_more_than_there_is_cannot_be_taken() -> None:
    model = decoder(native=False)
    source, target = opened(model), opened(model)
    model.step([TokenRows(sequence=source, ids=ids(4, 3))])
    with pytest.raises(ValueError, match="5 tokens of 4"):
        model.fork(source, target, 5)
    model.close(source)
    model.close(target)


def test_a_trimmed_sequence_gives_its_room_back_and_keeps_its_tokens() -> None:
    model = decoder(native=False)
    source, target = opened(model), opened(model)
    before = model.step([TokenRows(sequence=source, ids=ids(20, 4))])[0].logits
    free = model.arena.num_free_blocks
    model.trim(source, 20)
    assert model.arena.num_free_blocks == free + 2  # of four blocks, two hold the twenty tokens
    model.fork(source, target, 19)
    after = model.step([TokenRows(sequence=target, ids=ids(20, 4)[19:])])[0].logits
    assert before is not None
    assert after is not None
    assert torch.allclose(before, after, atol=1e-4)
    model.close(source)
    model.close(target)
    assert model.arena.usage() == model.arena.recount()
    assert model.arena.num_live == 0


@pytest.mark.parametrize("native", [pytest.param(True, marks=needs_native), False])
def test_requests_give_the_same_tokens_with_and_without_reuse(native: bool) -> None:
    torch.set_num_threads(1)
    common = ids(37, 5)
    prompts = [torch.cat([common, ids(5 + 3 * i, 6 + i)]) for i in range(6)] + [common]
    plain = load(decoder(native=native), reuse=False)
    want = [plain.run({"prompt": prompt}).outputs["tokens"] for prompt in prompts]
    running = load(decoder(native=native), reuse=True, limits=Limits(step_tokens=24, width=3))
    taken = 0
    for _ in range(2):
        requests = [running.submit({"prompt": prompt}) for prompt in prompts]
        drain(running)
        for request, tokens in zip(requests, want, strict=True):
            result = running.result(request)
            assert result is not None
            assert torch.equal(result.outputs["tokens"], tokens)
            taken += result.record["cached_tokens"]
        assert running.live == 0
        running.bound.pools.check()
    assert taken > 12 * 36
    running.bound.stores.drop()
    assert decoder(native=native).arena.num_live == 0


def test_under_batch_invariance_only_an_exact_step_takes_over_what_others_computed() -> None:
    prompt = ids(40, 7)
    for native in (True, False):
        model = lean.random(CONFIG, seed=1, cache_tokens=512, native=native)
        running = load(model, reuse=True, limits=Limits(batch_invariant=True))
        running.run({"prompt": prompt})
        taken = running.run({"prompt": prompt}).record["cached_tokens"]
        assert taken == (39 if model.is_exact else 0)
        assert model.is_exact == (native and load_native() is not None)


def test_a_sessions_turns_read_nothing_twice_and_answer_as_one_prompt_would() -> None:
    torch.set_num_threads(1)
    model = lean.random(CONFIG, seed=1, cache_tokens=512)
    card = TALK_CARD.format(loop=", session: true", cache=", reuse: prefix", size="64 KiB")
    running, plain = omniflow.load(compile_in(card, TOKENS), experts={"thinker": model}), load(model, reuse=False)
    session, so_far = running.session(), ids(0, 0)
    for turn in range(3):
        new = ids(12, 20 + turn)
        result = running.run({"prompt": new}, session=session)
        assert result.record["cached_tokens"] >= (len(so_far) - 1 if turn else 0)
        so_far = torch.cat([so_far, new])
        assert torch.equal(result.outputs["tokens"], plain.run({"prompt": so_far}).outputs["tokens"])
        so_far = torch.cat([so_far, result.outputs["tokens"]])
    running.close_session(session)
    running.bound.stores.drop()
    assert running.kept == running.live == model.arena.num_live == 0
