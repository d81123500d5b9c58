"""Codes of several codebooks a step, each codebook behind the one before, guided by a second sequence beside."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import torch

import omniflow
from omniflow import Engine, InputError, Limits, Schedule
from omniflow.errors import BindError
from omniflow.experts.null_frames import CODES, GROUPS, NullComposer
from omniflow.experts.null_language import arena_of
from omniflow.roles import TokenRows
from omniflow.verification.cases import make_cases
from omniflow.verification.modes import crowded, serial
from tests.runtime.program import drain

PROGRAM = Path(__file__).parents[2] / "specs" / "null" / "columns.program.yaml"
PROMPTS = ("The sky is blue.", "Rain", "Stars fell down near an old tree.", "Air", "We see light of the sun.")
SAMPLED = {"compose.temperature": 100.0, "compose.top_k": 20}


@cache
def schedule() -> Schedule:
    return omniflow.compile(PROGRAM)


def delayed(*delays: int) -> Schedule:
    """With these delays in place of those of the card."""
    nodes = (
        replace(node, attributes={**node.attributes, "delays": list(delays)}) if node.id == "compose" else node
        for node in schedule().nodes
    )
    return replace(schedule(), nodes=tuple(nodes))


def engine(**options: Any) -> Engine:
    return omniflow.load(schedule(), **options)


@cache
def alone(prompt: str, *, sampled: bool = False, seed: int = 0) -> tuple[torch.Tensor, torch.Tensor]:
    result = engine().run({"prompt": prompt}, params=SAMPLED if sampled else {}, seed=seed)
    assert result.state == "done", result.error
    return result.outputs["codes"], result.outputs["audio"]


def by_hand(prompt: str, *, delays: tuple[int, ...], cfg: float, frames: int) -> list[list[int]]:
    """The same frames from the expert's own steps."""
    composer = NullComposer(seed=24, arena=arena_of(None))
    ids = torch.tensor(engine().bound.experts["tokenizer"].encode(prompt))
    sequences = [composer.open(conditions, max_positions=100) for conditions in ({"source": ids}, {})]
    column, columns = list(composer.start_ids), []
    for at in range(frames + max(delays)):
        rows = [TokenRows(sequence=each, ids=torch.tensor([column])) for each in sequences if each is not None]
        conditional, without = (step.logits for step in composer.step(rows))
        assert conditional is not None
        assert without is not None
        column = (without + cfg * (conditional - without)).argmax(-1).tolist()
        columns.append(column)
        column = [code if 0 <= at - d < frames else CODES for code, d in zip(column, delays, strict=True)]
    return [[columns[frame + d][k] for k, d in enumerate(delays)] for frame in range(frames)]


@pytest.mark.parametrize("delays", [(0, 1, 2, 3), (0, 0, 0, 0), (2, 0, 5, 1)])
@pytest.mark.parametrize("cfg", [1.0, 3.0])
@pytest.mark.parametrize("frames", [1, 2, 17])
def test_frames_are_those_of_the_expert_stepped_by_hand(delays: tuple[int, ...], cfg: float, frames: int) -> None:
    params = {"compose.cfg": cfg, "compose.max_tokens": frames}
    result = omniflow.load(delayed(*delays)).run({"prompt": PROMPTS[0]}, params=params)
    assert result.error is None
    assert result.outputs["codes"].tolist() == by_hand(PROMPTS[0], delays=delays, cfg=cfg, frames=frames)
    assert len(result.outputs["audio"]) == 8 * frames


def test_guidance_and_delays_change_what_is_written() -> None:
    found = [
        by_hand(PROMPTS[0], delays=delays, cfg=cfg, frames=17)
        for delays in ((0, 1, 2, 3), (0, 0, 0, 0))
        for cfg in (1.0, 3.0)
    ]
    assert all(one != other for i, one in enumerate(found) for other in found[:i])


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


def test_guided_and_plain_requests_are_rows_of_one_batch() -> None:
    running = engine(trace=True)
    ids = [running.submit({"prompt": "Rain"}, params={"compose.cfg": cfg}) for cfg in (1.0, 3.0)]
    drain(running)
    assert running.trace is not None
    assert {unit.width for unit in running.trace.units if unit.node == "compose"} == {2}
    for request, cfg in zip(ids, (1.0, 3.0), strict=True):
        result = running.result(request)
        assert result is not None
        assert result.outputs["codes"].tolist() == by_hand("Rain", delays=(0, 1, 2, 3), cfg=cfg, frames=40)


def test_every_codebook_draws_its_own_number() -> None:
    codes = alone(PROMPTS[0], sampled=True)[0]
    assert not torch.equal(codes, alone(PROMPTS[0], sampled=True, seed=1)[0])
    result = omniflow.load(delayed(0, 0, 0, 0)).run({"prompt": PROMPTS[0]}, params=SAMPLED)
    assert len({tuple(row) for row in result.outputs["codes"].tolist()}) > len(codes) // 2
    assert any(len(set(row)) == GROUPS for row in result.outputs["codes"].tolist())


def test_codes_that_are_suppressed_are_in_no_codebook() -> None:
    common = sorted(set(alone(PROMPTS[0])[0].flatten().tolist()))[:3]
    result = engine().run({"prompt": PROMPTS[0]}, params={"compose.suppress": common, "compose.suppress_from": 30})
    found = set(result.outputs["codes"].flatten().tolist())
    assert not found & set(common)
    assert max(found) < 30


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"compose.stop": [3]}, "stop is of single ids, and with delays every step chooses 4 codes"),
        ({"compose.repetition_penalty": 1.5}, "repetition_penalty is of single ids"),
        ({"compose.delays": [0, 1, 2, 4]}, r"compose\.delays"),
    ],
)
def test_what_a_request_cannot_ask_of_codebooks_is_refused(params: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        engine().submit({"prompt": "Air"}, params=params)


def test_delays_of_another_number_of_codebooks_are_refused() -> None:
    with pytest.raises(BindError, match="delays has 2 numbers, and its expert chooses 4 codes a step"):
        omniflow.load(delayed(0, 1))


def test_guidance_of_an_expert_that_knows_no_other_branch_is_refused() -> None:
    speech = omniflow.load(omniflow.compile("null.speech"))
    with pytest.raises(InputError, match="cfg is on, and its expert has no conditions that guidance could leave"):
        speech.submit({"prompt": "Air"}, params={"think.cfg": 2.0})


def test_the_record_counts_frames() -> None:
    record = engine().run({"prompt": PROMPTS[0]}).record
    assert record["tokens"] == record["nodes"]["compose"]["emitted"]["codes"] == 40


def test_the_first_sound_comes_before_the_last_frame() -> None:
    running = engine(trace=True)
    running.run({"prompt": PROMPTS[0]})
    assert running.trace is not None
    order = [unit.node for unit in running.trace.units]
    assert order.index("wave") < max(i for i, node in enumerate(order) if node == "compose")


def test_neighbours_cancelled_change_nothing() -> None:
    for steps in range(2, 24, 3):
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


def test_a_rollout_records_the_frames_and_how_likely_each_code_was() -> None:
    result = engine(profile="rollout").run({"prompt": PROMPTS[0]}, params=SAMPLED, seed=3)
    (record,) = result.behaviour["compose"]
    codes = result.outputs["codes"].tolist()
    assert record["codes"] == codes
    assert [len(row) for row in record["logprobs"]] == [GROUPS] * len(codes)
    assert all(value <= 0 for row in record["logprobs"] for value in row)


def test_a_code_with_logits_that_are_no_numbers_fails_its_request_alone() -> None:
    running = engine()
    composer = running.bound.experts["composer"]
    score, calls = composer.score, iter(range(1000))

    def broken(hidden: torch.Tensor, positions: torch.Tensor, lengths: torch.Tensor) -> torch.Tensor:
        logits: torch.Tensor = score(hidden, positions, lengths)
        if next(calls) == 5:
            logits[0, 2] = float("nan")
        return logits

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(composer, "score", broken)
        ids = [running.submit({"prompt": prompt}) for prompt in PROMPTS[:2]]
        drain(running)
    results = [running.result(request) for request in ids]
    assert [result is not None and result.state for result in results] == ["failed", "done"]
    assert results[0] is not None
    assert "logits that are not numbers" in str(results[0].error)


def test_room_that_is_taken_again_and_again_changes_nothing() -> None:
    cases = make_cases(schedule(), 6, [])
    found = crowded(schedule(), cases, Limits())
    want = serial(schedule(), cases, Limits())
    for one, other in zip(found, want, strict=True):
        assert one is not None
        assert other is not None
        assert one.error is None
        assert torch.equal(one.outputs["codes"], other.outputs["codes"])


@pytest.mark.parametrize("at", range(3, 12, 2))
def test_both_sequences_of_a_guided_request_outlive_the_loss_of_their_room(at: int) -> None:
    need = 64 * 2 * 48  # bytes of cache for one request
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
    assert first.record["preempted"]["times"] == 1
    for result, prompt in ((first, PROMPTS[2]), (second, PROMPTS[4])):
        assert torch.equal(result.outputs["codes"], alone(prompt, sampled=True, seed=4)[0])
    assert running.live == 0
    running.bound.pools.check()


def test_room_for_one_of_two_sequences_is_told_and_given_back() -> None:
    caches = tuple(replace(cache, max_bytes=64 * 48) for cache in schedule().caches)
    running = omniflow.load(replace(schedule(), caches=caches))
    result = running.run({"prompt": "Air"})
    assert result.error is not None
    assert "it needs 2 sequences of 44 positions, more than the empty cache of composer gives" in result.error
    assert running.run({"prompt": "Air"}, params={"compose.cfg": 1.0}).state == "done"
    running.bound.pools.check()
