"""A loop inside a loop: frames of codes, made by an outer and an inner expert, whatever else runs."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import torch

import omniflow
from omniflow import Engine, InputError, Limits, Schedule
from omniflow.experts.null_frames import NullDepth, NullFramer
from omniflow.experts.null_language import arena_of
from omniflow.roles import TokenRows
from omniflow.verification.cases import make_cases
from omniflow.verification.modes import crowded, serial
from tests.runtime.program import drain

PROGRAM = Path(__file__).parents[2] / "specs" / "null" / "frames.program.yaml"
PROMPTS = ("The sky is blue.", "Rain", "Stars fell down near an old tree.", "Air", "We see light of the sun.")
SAMPLED = {"speak.temperature": 100.0, "speak.deepen.temperature": 100.0, "speak.deepen.top_k": 20}


@cache
def schedule() -> Schedule:
    return omniflow.compile(PROGRAM)


def engine(**options: Any) -> Engine:
    return omniflow.load(schedule(), **options)


@cache
def alone(prompt: str, *, sampled: bool = False, seed: int = 0) -> tuple[torch.Tensor, torch.Tensor]:
    result = engine().run({"prompt": prompt}, params=SAMPLED if sampled else {}, seed=seed)
    assert result.state == "done", result.error
    return result.outputs["codes"], result.outputs["audio"]


def by_hand(prompt: str, most: int = 40) -> list[list[int]]:
    """The same frames from the two experts' own steps."""
    framer, depth = NullFramer(seed=21, arena=arena_of(None)), NullDepth(seed=22, arena=arena_of(None))
    ids = torch.tensor(omniflow.load(schedule()).bound.experts["tokenizer"].encode(prompt))
    outer = framer.open({}, max_positions=200)
    assert outer is not None
    frames: list[list[int]] = []
    while len(frames) < most:
        out = framer.step([TokenRows(sequence=outer, ids=ids, wants_hidden=True)])[0]
        assert out.logits is not None
        assert out.hidden is not None
        codes = [int(out.logits.argmax())]
        if codes[0] == 2:
            break
        conditions = {"hidden": out.hidden[-1:], "first": torch.tensor(codes)}
        inner = depth.open(conditions, max_positions=10)
        assert inner is not None
        rows = TokenRows(sequence=inner, embeds=depth.prompt(conditions))
        for _ in range(3):
            logits = depth.step([rows])[0].logits
            assert logits is not None
            codes.append(int(logits.argmax()))
            rows = TokenRows(sequence=inner, ids=torch.tensor(codes[-1:]))
        frames.append(codes)
        ids = torch.tensor([codes])
    return frames


@pytest.mark.parametrize("prompt", PROMPTS)
def test_frames_are_those_of_the_experts_stepped_by_hand(prompt: str) -> None:
    codes, audio = alone(prompt)
    assert codes.tolist() == by_hand(prompt)
    assert len(audio) == 8 * len(codes)


def test_some_prompt_stops_and_some_reaches_the_bound() -> None:
    lengths = [len(alone(prompt)[0]) for prompt in PROMPTS]
    assert 10 < min(lengths) < max(lengths) == 40


@pytest.mark.parametrize("sampled", [False, True])
@pytest.mark.parametrize("width", [1, 2, 64])
def test_requests_together_give_each_what_it_gives_alone(sampled: bool, width: int) -> None:
    running = engine(limits=Limits(width=width, step_tokens=width + 5, min_prefill=1))
    params = SAMPLED if sampled else {}
    ids = []
    for seed, prompt in enumerate(PROMPTS):
        ids.append(running.submit({"prompt": prompt}, params=params, seed=seed))
        for _ in range(7 * seed):
            running.step()
    drain(running)
    for seed, (request, prompt) in enumerate(zip(ids, PROMPTS, strict=True)):
        result = running.result(request)
        assert result is not None
        codes, audio = alone(prompt, sampled=sampled, seed=seed if sampled else 0)
        assert torch.equal(result.outputs["codes"], codes)
        assert torch.equal(result.outputs["audio"], audio)
    assert running.live == 0
    running.bound.pools.check()


def test_inner_steps_of_requests_that_began_apart_batch() -> None:
    running = engine(trace=True, limits=Limits(step_tokens=4, min_prefill=4))  # prompts come in bit by bit
    for prompt in PROMPTS:
        running.submit({"prompt": prompt})
    drain(running)
    assert running.trace is not None
    units = [unit for unit in running.trace.units if unit.node == "speak"]
    assert len({unit.request for unit in units[:3]}) < len(PROMPTS)
    widths = Counter(unit.width for unit in units)
    shortest = min(len(alone(prompt)[0]) for prompt in PROMPTS)
    assert widths[len(PROMPTS)] >= len(PROMPTS) * 4 * (shortest - 5)


def test_every_draw_has_its_own_number() -> None:
    codes = alone(PROMPTS[0], sampled=True)[0]
    assert not torch.equal(codes, alone(PROMPTS[0], sampled=True, seed=1)[0])
    assert len({tuple(row) for row in codes[:, 1:].tolist()}) > len(codes) // 2


def test_sampling_of_the_inner_loop_is_its_own() -> None:
    params = {name: value for name, value in SAMPLED.items() if "deepen" in name}
    result = engine().run({"prompt": PROMPTS[0]}, params=params)
    first, greedy = result.outputs["codes"][0], alone(PROMPTS[0])[0][0]
    assert first[0] == greedy[0]
    assert not torch.equal(first, greedy)


def test_an_unknown_parameter_of_the_inner_loop_is_refused() -> None:
    with pytest.raises(InputError, match=r"speak\.deepen\.top_p"):
        engine().submit({"prompt": "Air"}, params={"speak.deepen.topp": 0.5})


def test_the_length_of_frames_is_fixed() -> None:
    with pytest.raises(InputError, match="every frame has 3"):
        engine().run({"prompt": "Air"}, params={"speak.deepen.max_tokens": 2})


def test_the_first_sound_comes_before_the_last_frame() -> None:
    running = engine(trace=True)
    running.run({"prompt": PROMPTS[0]})
    assert running.trace is not None
    order = [unit.node for unit in running.trace.units]
    assert order.index("wave") < max(i for i, node in enumerate(order) if node == "speak")


def test_neighbours_cancelled_inside_a_frame_change_nothing() -> None:
    for steps in range(4, 24, 3):
        running = engine()
        ids = [running.submit({"prompt": prompt}) for prompt in PROMPTS]
        for _ in range(steps):
            running.step()
        for request in ids[1:]:
            running.cancel(request)
        drain(running)
        result = running.result(ids[0])
        assert result is not None
        assert torch.equal(result.outputs["codes"], alone(PROMPTS[0])[0])
        assert running.live == 0
        running.bound.pools.check()


def test_a_rollout_records_every_choice_of_both_loops() -> None:
    running = engine(profile="rollout")
    result = running.run({"prompt": PROMPTS[0]}, params=SAMPLED, seed=3)
    (record,) = result.behaviour["speak"]
    codes = result.outputs["codes"].tolist()
    assert record["codes"] == codes
    assert record["tokens"] == [row[0] for row in codes]
    assert [len(row) for row in record["inner_logprobs"]] == [3] * len(codes)
    assert all(value <= 0 for row in record["inner_logprobs"] for value in row)


def test_a_frame_of_stop_codes_ends_the_loop_and_is_not_emitted() -> None:
    frames = by_hand(PROMPTS[0])
    at = next(i for i, row in enumerate(frames) if i > 0 and not any(set(row) >= set(r[:-1]) for r in frames[:i]))
    result = engine().run({"prompt": PROMPTS[0]}, params={"speak.stop_frame": frames[at]})
    assert result.outputs["codes"].tolist() == frames[:at]
    result = engine().run({"prompt": PROMPTS[0]}, params={"speak.stop_frame": frames[at][:-1]})
    last_is_among = frames[at][-1] in frames[at][:-1]
    assert result.outputs["codes"].tolist() == frames[: at if last_is_among else at + 1]


def test_the_record_counts_the_tokens_of_the_outer_loop() -> None:
    record = engine().run({"prompt": PROMPTS[0]}).record
    assert record["tokens"] == record["nodes"]["speak"]["emitted"]["codes"] > 0


@pytest.mark.parametrize("at", range(6, 18))
def test_a_frame_in_the_making_outlives_the_loss_of_its_room(at: int) -> None:
    need = 64 * (48 + 40)  # bytes of cache for one request of the framer
    caches = tuple(replace(cache, max_bytes=need) for cache in schedule().caches)
    running = omniflow.load(replace(schedule(), caches=caches))
    low = running.submit({"prompt": PROMPTS[2]}, params=SAMPLED, seed=4)
    for _ in range(at):
        running.step()
    high = running.submit({"prompt": PROMPTS[4]}, params=SAMPLED, seed=4, priority=1)
    drain(running)
    first, second = running.result(low), running.result(high)
    assert first is not None
    assert second is not None
    assert first.record["preempted"] == {"times": 1, "units": 0}
    for result, prompt in ((first, PROMPTS[2]), (second, PROMPTS[4])):
        assert torch.equal(result.outputs["codes"], alone(prompt, sampled=True, seed=4)[0])
        assert torch.equal(result.outputs["audio"], alone(prompt, sampled=True, seed=4)[1])
    assert running.live == 0
    running.bound.pools.check()


def test_room_that_is_taken_again_and_again_changes_nothing() -> None:
    cases = make_cases(schedule(), 6, [])
    found = crowded(schedule(), cases, Limits())
    want = serial(schedule(), cases, Limits())
    times = 0
    for one, other in zip(found, want, strict=True):
        assert one is not None
        assert other is not None
        assert one.error is None
        assert torch.equal(one.outputs["codes"], other.outputs["codes"])
        times += one.record["preempted"]["times"]
    assert times >= 4
