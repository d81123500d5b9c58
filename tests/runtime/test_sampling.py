"""A row's token depends on its own logits, parameters and number, never on its neighbours."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from transformers import (
    LogitsProcessorList,
    MinLengthLogitsProcessor,
    RepetitionPenaltyLogitsProcessor,
    SuppressTokensLogitsProcessor,
    TemperatureLogitsWarper,
    TopKLogitsWarper,
    TopPLogitsWarper,
)

from omniflow.loops.sampling import PLAIN, Choice, Sampling, choose, read_sampling
from omniflow.rng import Source
from tests.runtime.program import PROMPTS, drain, engine

VOCAB = 40


def logits(seed: int, rows: int) -> torch.Tensor:
    return torch.randn(rows, VOCAB, generator=torch.Generator().manual_seed(seed)) * 3


samplings = st.builds(
    Sampling,
    temperature=st.sampled_from([0.0, 0.3, 1.0, 2.0]),
    top_k=st.sampled_from([0, 1, 3, 50]),
    top_p=st.sampled_from([0.1, 0.5, 0.9, 1.0]),
    repetition_penalty=st.sampled_from([0.8, 1.0, 1.5]),
    suppress=st.sampled_from([(), (3, 7)]),
    stop=st.just(frozenset({5})),
    min_tokens=st.sampled_from([0, 4]),
)
choices = st.builds(
    Choice,
    sampling=samplings,
    num_tokens=st.integers(0, 6),
    seen=st.lists(st.integers(0, VOCAB - 1), max_size=6).map(lambda ids: torch.tensor(ids, dtype=torch.int64)),
    uniform=st.floats(0, 1, exclude_max=True),
)


@settings(max_examples=200, deadline=None)
@given(st.lists(choices, min_size=1, max_size=5), st.integers(0, 99))
def test_a_row_alone_is_a_row_among_others(rows: list[Choice], seed: int) -> None:
    scores = logits(seed, len(rows))
    together = choose(scores, rows).tolist()
    assert together == [int(choose(scores[i : i + 1], [row])) for i, row in enumerate(rows)]
    assert torch.equal(scores, logits(seed, len(rows)))


@settings(max_examples=200, deadline=None)
@given(choices, st.integers(0, 99))
def test_the_chosen_id_is_one_that_transformers_would_draw(row: Choice, seed: int) -> None:
    scores = logits(seed, 1)
    sampling, seen = row.sampling, row.seen
    assert seen is not None
    steps = LogitsProcessorList()
    if len(seen):
        steps.append(RepetitionPenaltyLogitsProcessor(sampling.repetition_penalty))
    if sampling.suppress:
        steps.append(SuppressTokensLogitsProcessor(list(sampling.suppress)))
    if row.num_tokens < sampling.min_tokens:
        steps.append(MinLengthLogitsProcessor(10_000, [5]))
    if sampling.temperature:
        steps.append(TemperatureLogitsWarper(sampling.temperature))
        if sampling.top_k:
            steps.append(TopKLogitsWarper(min(sampling.top_k, VOCAB)))
        if sampling.top_p < 1.0:
            steps.append(TopPLogitsWarper(sampling.top_p))
    probs = steps(seen[None], scores.clone())[0].softmax(-1) if len(steps) else scores[0].softmax(-1)
    chosen = int(choose(scores, [row]))
    if sampling.temperature == 0.0:
        assert chosen == int(probs.argmax())
        return
    assert probs[chosen] > 0
    kept = probs.sort(descending=True, stable=True)
    reach = kept.values.double().cumsum(0)
    near = min(int((reach <= row.uniform).sum()), int((probs > 0).sum()) - 1)  # up to rounding of the sums
    assert chosen in kept.indices[max(near - 1, 0) : near + 2].tolist()


def test_draws_follow_the_distribution() -> None:
    scores = torch.tensor([[0.0, 1.0, 2.0, -1.0]])
    source = Source(1, "think", 0)
    sampling = Sampling(temperature=1.0)
    rows = [Choice(sampling=sampling, num_tokens=0, seen=None, uniform=source.uniform(i)) for i in range(4000)]
    counts = torch.bincount(choose(scores.expand(4000, 4), rows), minlength=4) / 4000
    assert torch.allclose(counts, scores[0].softmax(-1), atol=0.03)


def test_logits_without_a_number_choose_nothing() -> None:
    scores = logits(1, 3)
    scores[1, 4] = float("nan")
    scores[2] = float("-inf")
    assert choose(scores, [PLAIN] * 3).tolist()[1:] == [-1, -1]


@pytest.mark.parametrize(
    ("name", "value"),
    [("temperature", -1.0), ("top_p", 0.0), ("top_k", -3), ("repetition_penalty", 0.0), ("max_tokens", -1)],
)
def test_parameters_out_of_bounds_are_named(name: str, value: float) -> None:
    with pytest.raises(ValueError, match=name):
        read_sampling({name: value})


def test_draws_differ_by_seed_node_item_and_step() -> None:
    draws = [Source(s, n, i).bits(t) for s in (0, 1) for n in ("a", "b") for i in (0, 1) for t in (0, 1)]
    assert len(set(draws)) == len(draws)
    assert Source(5, "a", 3).uniform(2) == Source(5, "a", 3).uniform(2)


def test_sampled_requests_do_not_depend_on_what_else_runs() -> None:
    params = {"think.temperature": 1.5, "think.top_k": 20, "think.repetition_penalty": 1.2}
    alone = [engine().run({"prompt": p}, seed=s, params=params).outputs["text"] for s, p in enumerate(PROMPTS)]
    running = engine()
    ids = [running.submit({"prompt": p}, seed=s, params=params) for s, p in enumerate(PROMPTS)]
    running.submit({"prompt": "greedy"})
    drain(running)
    together = []
    for request in ids:
        result = running.result(request)
        assert result is not None
        together.append(result.outputs["text"])
    assert together == alone
    assert alone[0] != engine().run({"prompt": PROMPTS[0]}, seed=9, params=params).outputs["text"]
