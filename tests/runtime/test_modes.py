"""However requests run, each gives exactly what it gives alone."""

from __future__ import annotations

import random

import pytest
import torch

from omniflow import Limits
from tests.runtime.program import PROMPTS, alone, assert_same, drain, engine, outputs_of


def test_requests_together_give_each_what_it_gives_alone() -> None:
    running = engine()
    ids = [running.submit({"prompt": prompt}, seed=seed) for seed, prompt in enumerate(PROMPTS)]
    drain(running)
    for seed, (request, prompt) in enumerate(zip(ids, PROMPTS, strict=True)):
        assert_same(running.result(request), prompt, seed)


@pytest.mark.parametrize("width", [1, 2, 3, 8])
def test_the_width_of_batches_changes_nothing(width: int) -> None:
    running = engine(limits=Limits(width=width, step_tokens=width + 3, min_prefill=1))
    ids = [running.submit({"prompt": prompt}) for prompt in PROMPTS]
    drain(running)
    for request, prompt in zip(ids, PROMPTS, strict=True):
        assert_same(running.result(request), prompt)


def test_batches_are_as_wide_as_there_are_requests() -> None:
    running = engine(trace=True)
    for prompt in PROMPTS:
        running.submit({"prompt": prompt})
    drain(running)
    assert running.trace is not None
    widths = [unit.width for unit in running.trace.units if unit.node == "think" and unit.kind == "ar_token"]
    assert max(widths) == len(PROMPTS)


def test_requests_that_join_late_change_nothing() -> None:
    running, ids, draw = engine(), [], random.Random(7)
    for prompt in PROMPTS * 2:
        ids.append(running.submit({"prompt": prompt}))
        for _ in range(draw.randrange(60)):
            running.step()
    drain(running)
    for request, prompt in zip(ids, PROMPTS * 2, strict=True):
        assert_same(running.result(request), prompt)


def test_neighbours_cancelled_at_any_unit_change_nothing() -> None:
    draw = random.Random(3)
    for _ in range(6):
        running = engine()
        ids = [running.submit({"prompt": prompt}) for prompt in PROMPTS]
        victims = draw.sample(ids[1:], 3)
        while not running.is_idle:
            if victims and draw.random() < 0.05:
                running.cancel(victims.pop())
            running.step()
        assert_same(running.result(ids[0]), PROMPTS[0])
        assert running.live == 0


def test_pieces_as_they_stream_add_up_to_the_whole() -> None:
    pieces: dict[str, list[object]] = {"text": [], "audio": []}
    running = engine()
    result = running.run({"prompt": PROMPTS[0]}, listener=lambda piece: pieces[piece.output].append(piece.data))
    text, audio = outputs_of(result)
    assert len(pieces["text"]) > 5
    assert len(pieces["audio"]) > 5
    assert "".join(str(piece) for piece in pieces["text"]) == text
    assert torch.equal(torch.cat([piece for piece in pieces["audio"] if isinstance(piece, torch.Tensor)]), audio)


def test_other_prompts_and_seeds_give_other_outputs() -> None:
    assert alone(PROMPTS[0])[0] != alone(PROMPTS[1])[0]
    assert alone(PROMPTS[0], 0)[0] == alone(PROMPTS[0], 1)[0]  # greedy: the seed only moves the vocoder's noise
    assert not torch.equal(alone(PROMPTS[0], 0)[1], alone(PROMPTS[0], 1)[1])


def test_the_number_of_samples_is_exact() -> None:
    running = engine()
    result = running.run({"prompt": PROMPTS[0]})
    nodes = result.record["nodes"]
    clips = nodes["wave"]["items"]
    assert len(result.outputs["audio"]) == 300 * nodes["voice"]["emitted"]["cond"] + 4800 * (clips - 1)


def test_ids_that_nobody_chose_are_no_behaviour_and_need_no_model_under_rollout() -> None:
    prompt = "hello there"  # its answer has words from the lexicon whose phonemes the talker has no logits for
    result = engine(profile="rollout").run({"prompt": prompt})
    assert_same(result, prompt)
    chosen = [record for record in result.behaviour["speak"] if record["logprobs"]]
    assert 0 < len(chosen) < len(result.behaviour["speak"])
    assert all(len(record["tokens"]) == len(record["logprobs"]) for record in chosen)
    units = result.record["nodes"]["speak"]["units"]
    assert units["ar_prefill"] == len(chosen)
