"""Given tokens are scored in a few forwards, as they would be one by one, whoever else is in work."""

from __future__ import annotations

from functools import cache

import pytest
import torch

import omniflow
from omniflow import Engine, State
from omniflow.loops.score import POSITIONS
from omniflow.verification.cases import Case
from omniflow.verification.verify import verify
from tests.house.process import ROOT

FOLDER = ROOT / "specs" / "null"
VOCABULARY = 317


def ids(length: int, seed: int) -> torch.Tensor:
    return torch.randint(0, VOCABULARY, (length,), generator=torch.Generator().manual_seed(seed))


@cache
def schedule() -> omniflow.Schedule:
    return omniflow.compile(FOLDER / "score.program.yaml")


def one_by_one(engine: Engine, prompt: torch.Tensor, tokens: torch.Tensor) -> torch.Tensor:
    """Each token by itself, behind a prompt of all that comes before it."""
    found = [
        engine.run({"prompt": torch.cat([prompt, tokens[:i]]), "tokens": tokens[i : i + 1]}) for i in range(len(tokens))
    ]
    return torch.cat([result.outputs["logprobs"] for result in found])


def test_tokens_together_are_scored_as_one_by_one() -> None:
    engine, prompt, tokens = omniflow.load(schedule()), ids(5, 0), ids(12, 1)
    result = engine.run({"prompt": prompt, "tokens": tokens})
    assert result.outputs["logprobs"].shape == (12,)
    assert torch.equal(result.outputs["logprobs"], one_by_one(engine, prompt, tokens))
    assert len(set(result.outputs["logprobs"].tolist())) > 6


def test_what_a_reply_was_chosen_with_is_what_it_scores() -> None:
    reply = omniflow.load(omniflow.compile(FOLDER / "speech.program.yaml", outputs=["text"]), profile="rollout")
    params = {"think.temperature": 50.0, "think.max_tokens": 24, "think.stop": []}
    told = reply.run({"prompt": "Tell me of the rain."}, params=params, seed=3)
    behaviour = told.behaviour["think"][0]
    prompt = torch.tensor(
        reply.bound.experts["tokenizer"].encode_chat([{"role": "user", "content": "Tell me of the rain."}])
    )
    scored = omniflow.load(schedule()).run({"prompt": prompt, "tokens": torch.tensor(behaviour["tokens"])})
    assert len(behaviour["tokens"]) > 8
    assert scored.outputs["logprobs"].tolist() == pytest.approx(
        behaviour["logprobs"][: len(behaviour["tokens"])], abs=1e-5
    )


def test_long_sequences_of_many_requests_share_forwards() -> None:
    engine = omniflow.load(schedule(), trace=True)
    cases = [(ids(3 + i, i), ids(2 * POSITIONS + i, 10 + i)) for i in range(3)]
    numbers = [engine.submit({"prompt": prompt, "tokens": tokens}) for prompt, tokens in cases]
    while not engine.is_idle:
        engine.step()
    alone = omniflow.load(schedule())
    for number, (prompt, tokens) in zip(numbers, cases, strict=True):
        result = engine.result(number)
        assert result is not None
        assert torch.equal(
            result.outputs["logprobs"], alone.run({"prompt": prompt, "tokens": tokens}).outputs["logprobs"]
        )
    assert engine.trace is not None
    units = [event for event in engine.trace.units if event.kind == "logprob_batch"]
    assert sum(event.size for event in units) == sum(len(prompt) + len(tokens) - 1 for prompt, tokens in cases)
    assert any(event.width > 1 for event in units)
    assert engine.live == 0


def test_no_tokens_have_no_scores_and_take_no_room() -> None:
    result = omniflow.load(schedule()).run({"prompt": ids(4, 0), "tokens": ids(0, 0)})
    assert result.state is State.DONE
    assert result.outputs["logprobs"].shape == (0,)


@pytest.mark.parametrize(
    ("prompt", "tokens", "said"),
    [
        (ids(0, 0), ids(4, 0), "the prompt is empty"),
        (ids(4, 0), torch.tensor([VOCABULARY]), "outside the vocabulary"),
        (torch.tensor([VOCABULARY]), ids(4, 0), "outside the vocabulary"),
    ],
)
def test_what_cannot_be_scored_is_refused(prompt: torch.Tensor, tokens: torch.Tensor, said: str) -> None:
    engine = omniflow.load(schedule())
    with pytest.raises(omniflow.InputError, match=said):
        raise_fault(engine, prompt, tokens)
    assert engine.live == 0


def raise_fault(engine: Engine, prompt: torch.Tensor, tokens: torch.Tensor) -> None:
    result = engine.run({"prompt": prompt, "tokens": tokens})
    raise omniflow.InputError(result.error)


def test_every_mode_gives_the_same_scores() -> None:
    cases = [Case(inputs={"prompt": ids(3 + i, i), "tokens": ids(30 * i, i)}, seed=i) for i in range(4)]
    rows = list(verify(schedule(), cases, pruned=lambda output: None))
    assert len(rows) > 8
    assert all(row.holds for row in rows), [row.mode for row in rows if not row.holds]
