"""Model folders of several shapes through `specs/llama`: the ids of transformers, whatever else is in work."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

import omniflow
from omniflow.catalog import find_spec
from omniflow.verification.cases import Case
from omniflow.verification.verify import verify
from omniflow_compiler.schedule import content_hash
from tests.experts.lean.models import make, prompts, reference

pytestmark = pytest.mark.hf
NEW = 10


@pytest.fixture(scope="module", params=["llama_tied_biased_llama3", "qwen2", "qwen3", "qwen3_moe"])
def made(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[Any, Path]:
    folder = tmp_path_factory.mktemp(request.param)
    model = make(request.param, folder)
    (folder / "generation_config.json").unlink()
    end_with(folder / "config.json", None)  # so that every answer is as long as it may be
    return model, folder


def end_with(path: Path, ids: list[int] | None) -> None:
    config = json.loads(path.read_text()) if path.exists() else {}
    path.write_text(json.dumps({**config, "eos_token_id": ids}))


def schedule(folder: Path, **params: str) -> omniflow.Schedule:
    chosen = {"weights": str(folder), "dtype": "float32", "max_tokens": str(NEW), **params}
    return omniflow.compile(find_spec("llama.tokens"), outputs=["tokens"], params=chosen)


def test_requests_together_give_transformers_ids_each(made: tuple[Any, Path]) -> None:
    model, folder = made
    engine = omniflow.load(schedule(folder))
    tokens = prompts(5)
    ids = [engine.submit({"tokens": prompt}) for prompt in tokens]
    while not engine.is_idle:
        engine.step()
    results = [engine.result(i) for i in ids]
    found = [result.outputs["tokens"].tolist() for result in results if result is not None]
    assert found == [reference(model, prompt, NEW) for prompt in tokens]
    assert engine.live == 0


def test_turns_of_a_session_are_read_once_and_give_transformers_ids_of_the_whole(made: tuple[Any, Path]) -> None:
    model, folder = made
    engine = omniflow.load(schedule(folder))
    session, said = engine.session(), torch.empty(0, dtype=torch.int64)
    for prompt in prompts(3):
        result = engine.run({"tokens": prompt}, session=session)
        assert result.record["cached_tokens"] >= max(0, len(said) - 1)
        said = torch.cat([said, prompt])
        assert result.outputs["tokens"].tolist() == reference(model, said, NEW)
        said = torch.cat([said, result.outputs["tokens"]])


def test_a_prompt_that_begins_as_another_did_is_read_from_there_on(made: tuple[Any, Path]) -> None:
    model, folder = made
    engine = omniflow.load(schedule(folder))
    start, *ends = prompts(4)[::-1]
    for number, end in enumerate(ends):
        prompt = torch.cat([start, end])
        result = engine.run({"tokens": prompt})
        assert result.record["cached_tokens"] >= (len(start) if number else 0)
        assert result.outputs["tokens"].tolist() == reference(model, prompt, NEW)


@pytest.mark.parametrize("file", ["generation_config.json", "config.json"])
def test_the_ids_that_end_a_sequence_come_from_the_folder(made: tuple[Any, Path], file: str, tmp_path: Path) -> None:
    model, folder = made
    prompt = prompts(1)[0]
    expected = reference(model, prompt, NEW)
    own = shutil.copytree(folder, tmp_path / "own")
    end_with(own / file, [96, expected[3]])
    result = omniflow.load(schedule(own)).run({"tokens": prompt})
    assert result.outputs["tokens"].tolist() == expected[: expected.index(expected[3])]


def test_the_plan_counts_the_weights_that_are_loaded(made: tuple[Any, Path]) -> None:
    model, folder = made
    tied = model.config.vocab_size * model.config.hidden_size if model.config.tie_word_embeddings else 0
    large = sum(weight.numel() for name, weight in model.named_parameters() if weight.dim() > 1)
    (decoder,) = schedule(folder).experts
    assert decoder.weight_bytes == 4 * (large + tied)


def test_a_cache_in_bfloat16_holds_twice_the_tokens(made: tuple[Any, Path]) -> None:
    full = omniflow.load(schedule(made[1])).bound.experts["decoder"].arena
    half = omniflow.load(schedule(made[1], dtype="bfloat16")).bound.experts["decoder"].arena
    assert half.keys.dtype == torch.bfloat16
    assert abs(half.num_tokens - 2 * full.num_tokens) <= full.block_tokens


def test_the_plan_counts_quantized_matrices_in_their_own_bits(made: tuple[Any, Path]) -> None:
    model, folder = made
    if model.config.model_type == "qwen3_moe":
        pytest.skip("a mixture of experts is not quantized")
    embedding = model.config.vocab_size * model.config.hidden_size
    (full,), (small,) = schedule(folder).experts, schedule(folder, quantize="int8").experts
    assert small.weight_bytes == 4 * embedding + (full.weight_bytes - 4 * embedding) // 4


@pytest.mark.parametrize("quantize", ["int8", "int4"])
def test_a_quantized_model_answers_and_says_so_when_it_cannot(made: tuple[Any, Path], quantize: str) -> None:
    model, folder = made
    if model.config.model_type == "qwen3_moe":
        with pytest.raises(omniflow.BindError, match=f"{quantize} weights need"):
            omniflow.load(schedule(folder, quantize=quantize))
    else:
        result = omniflow.load(schedule(folder, quantize=quantize)).run({"tokens": prompts(1)[0]})
        assert len(result.outputs["tokens"]) == NEW


@pytest.mark.parametrize("quantize", ["int8", "int4"])
def test_verify_holds_fewer_bits_to_what_the_card_allows(made: tuple[Any, Path], quantize: str) -> None:
    model, folder = made
    if model.config.model_type != "qwen3":
        pytest.skip("one model is enough")
    small = schedule(folder, quantize=quantize)
    cases = [Case(inputs={"tokens": prompts(1)[0]}, seed=0)]
    *_, row = verify(small, cases, pruned=lambda output: None)
    assert (row.mode, row.comparison) == (f"decoder in {quantize}", "nats per token")
    assert row.difference > 0.0
    assert {quantize: row.tolerance}.items() <= small.parity["quantized"].items()  # type: ignore[union-attr]
    assert row.holds == (row.difference <= row.tolerance)
    strict = replace(small, parity={"quantized": {quantize: row.difference / 2}})
    strict = replace(strict, content_hash=content_hash(strict))
    *_, row = verify(strict, cases, pruned=lambda output: None)
    assert not row.holds
    assert "nats per token, the card allows" in row.problem


def test_given_tokens_are_as_probable_as_transformers_says(made: tuple[Any, Path]) -> None:
    model, folder = made
    chosen = {"weights": str(folder), "dtype": "float32"}
    engine = omniflow.load(omniflow.compile(find_spec("llama.score"), params=chosen))
    pairs = list(zip(prompts(4), reversed(prompts(4)), strict=True))
    numbers = [engine.submit({"prompt": prompt, "tokens": tokens}) for prompt, tokens in pairs]
    while not engine.is_idle:
        engine.step()
    for number, (prompt, tokens) in zip(numbers, pairs, strict=True):
        whole = torch.cat([prompt, tokens])
        with torch.no_grad():
            every = model(whole[None]).logits[0].log_softmax(-1)
        wanted = every[len(prompt) - 1 : -1].gather(1, tokens[:, None])[:, 0]
        result = engine.result(number)
        assert result is not None
        assert torch.allclose(result.outputs["logprobs"], wanted, rtol=0, atol=1e-5)
    assert engine.live == 0
