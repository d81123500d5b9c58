"""Requests that draw from one torch generator: the numbers of transformers, node after node."""

from __future__ import annotations

import pytest
import torch

from omniflow.errors import InputError
from omniflow.loops.sampling import Choice, Sampling, choose
from omniflow.rng import Source, own_generator
from tests.runtime.program import PROMPTS, drain, engine, outputs_of


def _row(seed: int) -> Choice:
    sampling = Sampling(temperature=0.7, top_k=20, top_p=0.8)
    return Choice(sampling=sampling, num_tokens=0, seen=None, uniform=0.0, generator=own_generator("torch", seed))


@pytest.mark.hf
def test_a_choice_is_the_one_that_transformers_processors_and_torch_make() -> None:
    from transformers import TemperatureLogitsWarper, TopKLogitsWarper, TopPLogitsWarper

    logits = torch.randn(200, 64, generator=torch.Generator().manual_seed(5))
    own, expected = [], []
    row = _row(3)
    torch.manual_seed(3)
    for scores in logits:
        own.append(int(choose(scores[None], [row])))
        warped = scores[None]
        for warper in (TemperatureLogitsWarper(0.7), TopKLogitsWarper(20), TopPLogitsWarper(0.8)):
            warped = warper(torch.zeros(1, 0, dtype=torch.int64), warped)
        expected.append(int(torch.multinomial(warped.softmax(-1), 1)))
    assert own == expected
    assert len(set(own)) > 20


def test_a_neighbour_with_derived_draws_changes_nothing() -> None:
    logits = torch.randn(2, 64, generator=torch.Generator().manual_seed(5))
    derived = Choice(sampling=Sampling(temperature=1.0), num_tokens=0, seen=None, uniform=0.3)
    both = choose(logits, [_row(3), derived])
    assert both.tolist() == [*choose(logits[:1], [_row(3)]).tolist(), *choose(logits[1:], [derived]).tolist()]


def test_all_sources_of_a_request_draw_from_its_one_generator() -> None:
    shared = own_generator("torch", 4)
    first, second = Source(4, "a", 0, shared=shared), Source(4, "b", 1, shared=shared)
    own = [torch.rand(2, generator=source.generator()) for source in (first, second.inside(3))]
    assert torch.equal(torch.cat(own), torch.rand(4, generator=torch.Generator().manual_seed(4)))


def test_requests_with_their_own_generator_give_the_same_alone_and_together() -> None:
    params = {"think.temperature": 0.9}
    alone = [outputs_of(engine().run({"prompt": p}, seed=i, rng="torch", params=params)) for i, p in enumerate(PROMPTS)]
    running = engine()
    ids = [running.submit({"prompt": p}, seed=i, rng="torch", params=params) for i, p in enumerate(PROMPTS)]
    drain(running)
    for request, (text, audio) in zip(ids, alone, strict=True):
        own_text, own_audio = outputs_of(running.result(request))
        assert own_text == text
        assert torch.equal(own_audio, audio)
    assert running.live == 0


def test_nodes_of_such_a_request_start_one_after_another() -> None:
    running = engine(trace=True)
    outputs_of(running.run({"prompt": PROMPTS[0]}, rng="torch"))
    assert running.trace is not None
    order = [unit.node for unit in running.trace.units if unit.node in ("think", "speak", "wave")]
    assert order == sorted(order, key=["think", "speak", "wave"].index)
    other = engine(trace=True)
    outputs_of(other.run({"prompt": PROMPTS[0]}))
    assert other.trace is not None
    streamed = [unit.node for unit in other.trace.units if unit.node in ("think", "speak", "wave")]
    assert streamed != sorted(streamed, key=["think", "speak", "wave"].index)


def test_another_kind_of_randomness_is_refused() -> None:
    with pytest.raises(InputError, match="rng must be derived or torch, not numpy"):
        engine().submit({"prompt": "Hm"}, rng="numpy")
