"""A request of higher priority takes room; who gave it goes on later, or begins anew, and gives the same, once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cache
from typing import Any

import pytest
import torch

import omniflow
from omniflow import Engine, Limits, Piece, Schedule, State
from omniflow.request import MAX_EVICTED
from omniflow.verification.cases import make_cases
from omniflow.verification.modes import crowded
from omniflow_compiler.schedule import Cache
from tests.runtime.program import PROMPTS, alone, assert_same, drain, speech
from tests.schedules import edge, expert, node, place, schedule


@cache
def small() -> Schedule:
    """The null program with a cache for one request at a time: 96 positions of 64 bytes."""
    caches = tuple(replace(cache, max_bytes=96 * 64) for cache in speech().caches)
    return replace(speech(), caches=caches)


NO_ROOM_ASIDE = -1  # caches cannot even be set aside when they take no bytes, so that requests begin anew
WAYS = pytest.mark.parametrize("aside_bytes", [1 << 20, NO_ROOM_ASIDE], ids=["set aside", "anew"])


def engine(**limits: Any) -> Engine:
    return omniflow.load(small(), limits=Limits(**limits))


def steps(running: Engine, count: int) -> None:
    for _ in range(count):
        running.step()


@WAYS
def test_a_higher_priority_takes_the_room_and_both_give_what_they_give_alone(aside_bytes: int) -> None:
    running = engine(aside_bytes=aside_bytes)
    low = running.submit({"prompt": PROMPTS[0]})
    steps(running, 30)
    high = running.submit({"prompt": PROMPTS[1]}, priority=1)
    ended = []
    while not running.is_idle:
        running.step()
        ended += [request for request in (low, high) if request not in ended and request in running.results]
    assert ended == [high, low]
    first, second = running.result(low), running.result(high)
    assert_same(first, PROMPTS[0])
    assert_same(second, PROMPTS[1])
    assert first is not None
    assert second is not None
    assert first.record["preempted"]["times"] == 1
    assert (first.record["preempted"]["units"] > 0) == (aside_bytes == NO_ROOM_ASIDE)
    assert second.record["preempted"] == {"times": 0, "units": 0}
    text = running.metrics.render(running)
    assert "omniflow_preemptions_total 1\n" in text
    assert running.live == 0
    running.bound.pools.check()


def test_equal_and_lower_priorities_wait() -> None:
    running = engine()
    first = running.submit({"prompt": PROMPTS[0]}, priority=1)
    steps(running, 30)
    others = [running.submit({"prompt": PROMPTS[1]}, priority=priority) for priority in (1, 0)]
    drain(running)
    for request, prompt in zip((first, *others), (PROMPTS[0], PROMPTS[1], PROMPTS[1]), strict=True):
        result = running.result(request)
        assert_same(result, prompt)
        assert result is not None
        assert result.record["preempted"]["times"] == 0


def test_what_is_set_aside_is_not_computed_again() -> None:
    want = omniflow.load(small()).run({"prompt": PROMPTS[0]}).record["nodes"]
    running = engine()
    low = running.submit({"prompt": PROMPTS[0]})
    steps(running, 30)
    running.submit({"prompt": PROMPTS[1]}, priority=1)
    drain(running)
    result = running.result(low)
    assert result is not None
    assert result.record["preempted"] == {"times": 1, "units": 0}
    found = result.record["nodes"]
    assert [found[node]["units"] for node in ("think", "speak")] == [want[node]["units"] for node in ("think", "speak")]


@WAYS
@pytest.mark.parametrize("at", [20, 60, 90, 150])
def test_a_client_hears_every_element_once(at: int, aside_bytes: int) -> None:
    pieces: list[Piece] = []
    running = engine(aside_bytes=aside_bytes)
    low = running.submit({"prompt": PROMPTS[0]}, listener=pieces.append)
    steps(running, at)
    heard = len(pieces)
    running.submit({"prompt": PROMPTS[1]}, priority=1)
    drain(running)
    assert heard or at < 60
    text, audio = alone(PROMPTS[0])
    assert "".join(piece.data for piece in pieces if piece.output == "text" and piece.data) == text
    sound = [p.data for p in pieces if p.output == "audio" and p.data is not None]
    assert torch.equal(torch.cat(sound), audio)
    assert_same(running.result(low), PROMPTS[0])


def test_the_youngest_of_the_lowest_priority_goes_first() -> None:
    caches = tuple(replace(cache, max_bytes=3 * 64 * 64) for cache in speech().caches)
    running = omniflow.load(replace(speech(), caches=caches))
    ids = [running.submit({"prompt": PROMPTS[0]}, priority=priority) for priority in (1, 0, 0)]
    steps(running, 30)
    running.submit({"prompt": PROMPTS[1]}, priority=2)
    drain(running)
    results = [running.result(request) for request in ids]
    times = [result.record["preempted"]["times"] for result in results if result is not None]
    assert times[0] == 0
    assert times[2] >= times[1]
    assert times[2] > 0
    for result in results:
        assert_same(result, PROMPTS[0])


@WAYS
def test_nobody_gives_way_for_ever(aside_bytes: int) -> None:
    caches = tuple(replace(cache, max_bytes=64 * 64) for cache in speech().caches)
    running = omniflow.load(replace(speech(), caches=caches), limits=Limits(aside_bytes=aside_bytes))
    low = running.submit({"prompt": PROMPTS[0]})
    steps(running, 30)
    for _ in range(5_000):
        if low in running.results:
            break
        if (
            len(running.lobby.waiting) + len(running.running) < 4
        ):  # there is always one of higher priority that wants room
            running.submit({"prompt": "Hm"}, params={"think.max_tokens": 8}, priority=1)
        running.step()
    result = running.result(low)
    drain(running)
    assert result is not None
    assert 0 < result.record["preempted"]["times"] <= MAX_EVICTED
    assert_same(result, PROMPTS[0])
    assert running.live == 0


def test_one_that_lost_its_room_can_be_cancelled_while_it_waits() -> None:
    running = engine(running=1, aside_bytes=NO_ROOM_ASIDE)
    low = running.submit({"prompt": PROMPTS[0]})
    steps(running, 30)
    running.conductor.preemption.evict(running.running[low], running.bound.experts["thinker"])
    high = running.submit({"prompt": PROMPTS[1]}, priority=1)
    steps(running, 3)
    assert low in running.lobby.waiting
    running.cancel(low)
    drain(running)
    cancelled = running.result(low)
    assert cancelled is not None
    assert cancelled.state is State.CANCELLED
    assert_same(running.result(high), PROMPTS[1])
    assert running.live == 0


def test_one_whose_cache_is_set_aside_can_be_cancelled() -> None:
    running = engine()
    low = running.submit({"prompt": PROMPTS[0]})
    steps(running, 30)
    high = running.submit({"prompt": PROMPTS[1]}, priority=1)
    while not running.running[low].num_evicted:
        running.step()
    running.bound.pools.check()
    running.cancel(low)
    drain(running)
    cancelled = running.result(low)
    assert cancelled is not None
    assert cancelled.state is State.CANCELLED
    assert_same(running.result(high), PROMPTS[1])
    assert running.live == 0
    running.bound.pools.check()


@WAYS
def test_a_generator_of_its_own_draws_on(aside_bytes: int) -> None:
    params = {"think.temperature": 60.0}
    want = omniflow.load(speech()).run({"prompt": PROMPTS[0]}, params=params, rng="torch", seed=3)
    running = engine(aside_bytes=aside_bytes)
    low = running.submit({"prompt": PROMPTS[0]}, params=params, rng="torch", seed=3)
    steps(running, 30)
    running.submit({"prompt": PROMPTS[1]}, priority=1)
    drain(running)
    result = running.result(low)
    assert result is not None
    assert result.record["preempted"]["times"] == 1
    assert result.outputs["text"] == want.outputs["text"]
    assert torch.equal(result.outputs["audio"], want.outputs["audio"])


def test_the_crowded_mode_of_verify_takes_room_away() -> None:
    found = crowded(speech(), make_cases(speech(), 4, []), Limits())
    results = [result for result in found if result is not None]
    assert [result.state for result in results] == [State.DONE] * 4
    assert sum(result.record["preempted"]["times"] for result in results) >= 2


@cache
def narrow() -> Schedule:
    """As `small`, with streams so narrow that a client that does not read stops the thinker while it holds room."""
    channels = tuple(
        replace(channel, capacity=2) if channel.node == "reply" else channel for channel in speech().channels
    )
    return replace(small(), channels=channels)


@pytest.mark.parametrize("is_spared", [False, True], ids=["it gives its room", "the other waits"])
def test_a_client_that_does_not_read_fails_no_other_that_waits_for_its_room(is_spared: bool) -> None:
    running = omniflow.load(narrow())
    silent = running.submit({"prompt": PROMPTS[0]})
    steps(running, 20)
    running.hold(silent, is_held=True)
    running.running[silent].is_spared = is_spared
    while running.step():
        pass
    assert running.bound.pools.live
    other = running.submit({"prompt": PROMPTS[1]})
    while running.step():
        pass
    meanwhile = running.result(other)
    assert (meanwhile is None) == is_spared
    running.hold(silent, is_held=False)
    drain(running)
    assert_same(meanwhile or running.result(other), PROMPTS[1])
    assert_same(running.result(silent), PROMPTS[0])
    assert running.live == 0


def test_a_client_that_reads_again_while_its_request_waits_anew_is_heard() -> None:
    running = engine(aside_bytes=NO_ROOM_ASIDE, running=1)
    low = running.submit({"prompt": PROMPTS[0]})
    steps(running, 30)
    running.hold(low, is_held=True)
    running.conductor.preemption.evict(running.running[low], running.bound.experts["thinker"])
    assert low in running.lobby.waiting
    running.hold(low, is_held=False)
    drain(running)
    assert_same(running.result(low), PROMPTS[0])


class Reader:
    """A denoiser whose velocity is the number of positions in the cache that was handed to it."""

    def initial(self, values: Mapping[str, Any], *, generator: torch.Generator) -> torch.Tensor:
        return torch.randn(1, 2, 2, generator=generator)

    def velocity(
        self, latents: Sequence[torch.Tensor], times: Sequence[float], conditions: Sequence[Any]
    ) -> list[torch.Tensor]:
        return [torch.full_like(latent, row["kv"].num_cached) for latent, row in zip(latents, conditions, strict=True)]


def handing_on() -> Engine:
    """A program whose cache, of room for one request, is read by reference in fifty steps."""
    tokens, cached = "tokens[T]", "kv[K]"
    program = schedule(
        inputs={"prompt": "text"},
        outputs={"latents": ("paint.latents", "latent[1, 2, 2]"), "tokens": ("think.tokens", tokens)},
        nodes=[
            node("cut", "op.tokenize", expert="tok", inputs={"text": "text"}, outputs={"tokens": tokens}),
            node("think", "loop.ar_decode", expert="lm", cache="kv", inputs={"prompt": tokens},
                 outputs={"tokens": tokens, "kv": cached}, attributes={"max_tokens": 8}),
            node("paint", "loop.diffusion_denoise", expert="reader", inputs={"kv": cached},
                 outputs={"latents": "latent[1, 2, 2]"}, attributes={"steps": 50}),
        ],
        edges=[
            edge("prompt -> cut.text", "text"),
            edge("cut.tokens -> think.prompt", tokens),
            edge("think.kv -> paint.kv", cached),
        ],
        experts=[expert("tok", "null.tokenizer"), expert("lm", "null.thinker"), expert("reader", "given")],
        caches=[Cache(name="kv", kind="paged_kv", max_bytes=16 * 64, block_tokens=16, place=place(3))],
    )  # fmt: skip
    return omniflow.load(program, experts={"reader": Reader()})


def test_a_request_whose_cache_is_handed_on_begins_anew_and_gives_the_same_once() -> None:
    want = handing_on().run({"prompt": PROMPTS[0]})
    assert want.state is State.DONE, want.error
    running, pieces = handing_on(), list[Piece]()
    low = running.submit({"prompt": PROMPTS[0]}, listener=pieces.append)
    steps(running, 40)
    assert running.running[low].runs["paint"].count.num_units > 5
    high = running.submit({"prompt": PROMPTS[0]}, priority=1)
    drain(running)
    first, second = running.result(low), running.result(high)
    assert first is not None
    assert second is not None
    assert first.record["preempted"]["times"] == 1
    assert first.record["preempted"]["units"] > 10
    for result in (first, second):
        assert torch.equal(result.outputs["latents"], want.outputs["latents"])
        assert torch.equal(result.outputs["tokens"], want.outputs["tokens"])
    told = torch.cat([piece.data for piece in pieces if piece.output == "tokens" and piece.data is not None])
    assert torch.equal(told, want.outputs["tokens"])
    assert running.live == 0
    running.bound.pools.check()
