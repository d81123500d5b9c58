"""Prompts that begin as an earlier sequence did are read from there on, with the same result."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import omniflow
from omniflow import BindError, Engine, Limits, Schedule
from omniflow.bind import bind
from omniflow.caches import Origin
from omniflow.pool import Pool
from omniflow.prefixes import Prefixes
from omniflow.roles import SequenceState
from omniflow.trace import chrome_trace
from tests.runtime.caches.programs import TALK, TALK_CARD, TOKENS, compile_in, talk
from tests.runtime.program import drain

SYSTEM = "You are a small machine that answers in few words. "
PROMPTS = tuple(SYSTEM + question for question in ("Why is the sky blue?", "Why is grass cool?", "Who sat on my mat?"))


def load(*, limits: Limits | None = None, trace: bool = False, schedule: Schedule | None = None) -> Engine:
    running = omniflow.load(schedule or talk(), limits=limits, trace=trace)
    running.bound.stores.drop()  # experts are of the process, and so is what is kept of them
    return running


def texts(running: Engine, prompts: Sequence[str]) -> list[str]:
    ids = [running.submit({"prompt": prompt}) for prompt in prompts]
    drain(running)
    results = [running.result(i) for i in ids]
    assert all(result is not None and result.state == "done" for result in results), results
    return [result.outputs["text"] for result in results if result is not None]


def plain(prompts: Sequence[str]) -> list[str]:
    running = omniflow.load(talk(reuse=False))
    return [running.run({"prompt": prompt}).outputs["text"] for prompt in prompts]


def pool_of(running: Engine) -> Pool:
    return running.bound.stores.pools["thinker"]


def cached(running: Engine, prompt: str) -> int:
    result = running.run({"prompt": prompt})
    assert result.state == "done", result.error
    count = result.record["cached_tokens"]
    assert count == result.record["nodes"]["think"]["cached"]
    assert isinstance(count, int)
    return count


def test_a_prompt_that_begins_the_same_is_not_read_again_and_answers_the_same() -> None:
    running = load()
    assert cached(running, PROMPTS[0]) == 0
    assert cached(running, PROMPTS[1]) >= len(SYSTEM) - 10
    assert texts(running, PROMPTS) == plain(PROMPTS)
    assert running.live == 0
    running.bound.pools.check()


def test_of_an_equal_prompt_all_but_the_last_token_is_there() -> None:
    running = load(trace=True)
    first = running.run({"prompt": PROMPTS[0]})
    again = running.run({"prompt": PROMPTS[0]})
    assert first.outputs == again.outputs
    assert running.trace is not None
    sizes = [unit.size for unit in running.trace.units if unit.kind == "ar_prefill"]
    assert again.record["cached_tokens"] == sum(sizes) - 2
    assert sizes[-1] == 1
    assert pool_of(running).num_kept == 1  # the second is no news


def test_prompts_that_come_together_read_together_what_they_share() -> None:
    running = load(limits=Limits(step_tokens=16, min_prefill=16), trace=True)
    ids = [running.submit({"prompt": PROMPTS[0]}) for _ in range(4)]
    drain(running)
    found = [running.result(i) for i in ids]
    assert {result.outputs["text"] for result in found if result} == set(plain(PROMPTS[:1]))
    assert running.trace is not None
    read = sum(unit.size for unit in running.trace.units if unit.kind == "ar_prefill")
    taken = sum(result.record["cached_tokens"] for result in found if result)
    assert (read + taken) % 4 == 0
    assert read == (read + taken) // 4 + 3  # all of it once, and the last token by each
    running.bound.pools.check()


def test_cancelled_requests_keep_nothing_and_change_nothing() -> None:
    running = load()
    for number in range(12):
        victim = running.submit({"prompt": PROMPTS[number % 3]})
        ids = [running.submit({"prompt": prompt}) for prompt in PROMPTS]
        for _ in range(3 * number):
            running.step()
        running.cancel(victim)
        drain(running)
        found = [running.result(i) for i in ids]
        assert [result.outputs["text"] for result in found if result] == plain(PROMPTS)
        running.bound.pools.check()
        assert running.live == 0


def test_what_is_kept_makes_room_before_anybody_waits_or_is_refused() -> None:
    running = load()
    for number in range(30):
        assert cached(running, f"{number} is a number of its own") < 5
    pool = pool_of(running)
    assert pool.num_kept < 30
    assert pool.num_used is not None
    assert pool.num_used > 800
    result = running.run({"prompt": "All of it"}, params={"think.max_tokens": 1000})
    assert result.state == "done", result.error
    assert result.record["queued_seconds"] < 10
    assert pool.num_kept == 1
    running.bound.pools.check()


def test_the_longest_unused_makes_room_first() -> None:
    running = load()
    for prompt in ("one alone", "two alone", "three alone", "one alone"):
        cached(running, prompt)
    pool = pool_of(running)
    sequence = pool.reuse.prefixes.take_oldest() if pool.reuse else None
    assert sequence is not None
    pool.expert.close(sequence)
    assert cached(running, "two alone") < 5
    assert cached(running, "one alone") > 5


def test_a_conversation_that_goes_on_is_kept_once() -> None:
    running = load(schedule=compile_in(TALK_CARD.format(loop="", cache=", reuse: prefix", size="64 KiB"), TOKENS))
    so_far: list[int] = []
    for turn in range(3):
        so_far += range(10 + turn, 30 + turn)
        result = running.run({"prompt": so_far})
        assert result.record["cached_tokens"] >= (len(so_far) - 21 if turn else 0)  # all that was fed before
        so_far += result.outputs["tokens"].tolist()
    assert pool_of(running).num_kept == 1


def test_other_weights_find_nothing_of_before_whoever_computes_it() -> None:
    running = load()
    assert cached(running, PROMPTS[0]) == 0
    late = running.submit({"prompt": PROMPTS[1]})
    for _ in range(8):
        running.step()
    running.invalidate("thinker")
    drain(running)
    assert running.result(late) is not None
    assert pool_of(running).num_kept == 0  # what the late one computed is of before, in part
    assert cached(running, PROMPTS[1]) == 0
    assert cached(running, PROMPTS[1]) > 40
    running.invalidate("tokenizer")
    assert cached(running, PROMPTS[1]) > 40
    running.bound.pools.check()


def test_a_component_that_is_not_there_is_named() -> None:
    with pytest.raises(omniflow.InputError, match="has no component thniker"):
        load().invalidate("thniker")


def test_a_hand_off_of_the_prompts_hidden_states_never_takes_a_hit() -> None:
    card = TALK_CARD.format(loop="", cache=", reuse: prefix", size="64 KiB")
    schedule = compile_in(card, TALK)
    node = schedule.node("think")
    wide = replace(node.outputs[0], name="prompt_hidden", type=replace(node.outputs[0].type, base="act", text="act"))
    output = replace(schedule.outputs[0], name="states", node="think", port="prompt_hidden", type=wide.type)
    taken = replace(schedule, outputs=(*schedule.outputs, output))
    running = load(schedule=taken)
    for _ in range(2):
        result = running.run({"prompt": PROMPTS[0]})
        assert result.record["cached_tokens"] == 0
        assert result.outputs["states"].shape[0] > len(SYSTEM)


def test_nothing_is_kept_unless_the_card_asks_for_it() -> None:
    running = omniflow.load(talk(reuse=False))
    assert cached(running, PROMPTS[0]) == cached(running, PROMPTS[0]) == 0
    assert running.bound.stores.num_kept == 0
    running.bound.pools.check()
    assert pool_of(running).num_used == 0


def test_an_expert_that_cannot_is_refused_when_it_is_bound() -> None:
    class Stiff:
        vocab_size, start_ids = 10, ()
        open = step = close = lambda self: None

    with pytest.raises(BindError, match="reuse: prefix, and the expert of thinker has no fork and trim"):
        omniflow.load(talk(), experts={"thinker": Stiff()})


def test_trace_and_counters_say_what_was_found() -> None:
    running = load(trace=True)
    total = cached(running, PROMPTS[0]) + cached(running, PROMPTS[1]) + cached(running, PROMPTS[2])
    assert running.trace is not None
    assert sum(unit.cached for unit in running.trace.units) == total
    events = json.loads(chrome_trace(running.trace, running.schedule))["traceEvents"]
    assert sum(e["args"].get("cached", 0) for e in events if e["ph"] == "X" and e["pid"] == 2) == total
    shown = running.metrics.render(running)
    assert f'omniflow_cached_total{{node="think"}} {total}' in shown
    assert 'omniflow_kept_sequences{expert="thinker"} 3' in shown


def test_engines_of_one_process_share_what_their_expert_has_kept() -> None:
    first = load()
    assert cached(first, PROMPTS[0]) == 0
    second = omniflow.load(talk())
    assert bind(talk()).experts["thinker"] is first.bound.experts["thinker"]
    assert cached(second, PROMPTS[0]) > 40
    del first
    for number in range(30):
        cached(second, f"{number} needs room")
    second.bound.pools.check()


HERE = Origin(card="c", component="m", weights="w", dtype="float32")
sequences = st.lists(st.lists(st.integers(0, 1), min_size=1, max_size=14), max_size=6)


def as_bytes(ids: Sequence[int]) -> bytes:
    return torch.tensor(ids, dtype=torch.int64).numpy().tobytes()


def common(a: Sequence[int], b: Sequence[int]) -> int:
    count = 0
    while count < min(len(a), len(b)) and a[count] == b[count]:
        count += 1
    return count


@settings(deadline=None)
@given(kept=sequences, running=sequences, prompt=st.lists(st.integers(0, 1), min_size=1, max_size=14), data=st.data())
def test_the_longest_common_beginning_is_found_and_nothing_is_lost(
    kept: list[list[int]], running: list[list[int]], prompt: list[int], data: st.DataObject
) -> None:
    prefixes = Prefixes(block_tokens=3)
    open_: dict[int, tuple[SequenceState, list[int]]] = {}
    for ids in kept:
        sequence = SequenceState(num_cached=len(ids))
        closed = prefixes.keep(HERE, as_bytes(ids), sequence)
        open_[id(sequence)] = sequence, ids
        for each in closed:
            del open_[id(each)]
    assert prefixes.num_kept == len(open_)
    for ids in running:
        sequence = SequenceState(num_cached=data.draw(st.integers(0, len(ids))))
        prefixes.follow(HERE, as_bytes(ids), sequence)
        open_[id(sequence)] = sequence, ids[: sequence.num_cached]
    most = len(prompt) - 1
    want = max((min(common(ids, prompt), most) for _, ids in open_.values()), default=0)
    hit = prefixes.find(HERE, as_bytes(prompt), most=most)
    assert (hit.num_tokens if hit else 0) == want
    assert prefixes.find(replace(HERE, weights="v"), as_bytes(prompt), most=most) is None
    for sequence, _ in open_.values():
        prefixes.forget(sequence)
    assert prefixes.num_kept == 0
    assert prefixes.find(HERE, as_bytes(prompt), most=most) is None
    assert prefixes._roots == {}
