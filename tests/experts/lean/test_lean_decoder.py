"""The lean decoder against transformers, and against itself in other batches."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from omniflow.experts.lean import LeanDecoder, LeanRows
from omniflow.native import load_native
from omniflow.roles import TokenRows
from tests.experts.lean.models import configs, greedy, lean, make, prompts, reference

pytestmark = pytest.mark.hf
NAMES = ["llama", "llama_tied_biased_llama3", "qwen2", "qwen3", "qwen3_moe", "qwen3_moe_mixed"]


@pytest.fixture(scope="module", autouse=True)
def _one_thread() -> Any:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[Any, Path]]:
    folders = {name: tmp_path_factory.mktemp(name) for name in configs()}
    return {name: (make(name, folder), folder) for name, folder in folders.items()}


@pytest.fixture(scope="module", params=["torch", "native"])
def native(request: pytest.FixtureRequest) -> bool:
    wants = request.param == "native"
    if wants and load_native() is None:
        pytest.skip("there is no C++ compiler")
    return wants


@pytest.fixture(scope="module")
def llama(made: dict[str, tuple[Any, Path]], native: bool) -> LeanDecoder:
    return lean(made["llama"][1], native=native)


@pytest.mark.parametrize("name", NAMES)
def test_greedy_ids_equal_transformers_generate_for_every_prompt_of_a_ragged_batch(
    made: dict[str, tuple[Any, Path]], name: str, native: bool
) -> None:
    model, folder = made[name]
    tokens = prompts(3)
    expected = [reference(model, prompt, 12) for prompt in tokens]
    assert greedy(lean(folder, native=native), tokens, 12) == expected
    assert len({tuple(ids) for ids in expected}) == 3


@pytest.mark.parametrize("name", NAMES)
def test_logits_and_hidden_states_equal_transformers(
    made: dict[str, tuple[Any, Path]], name: str, native: bool
) -> None:
    model, folder = made[name]
    decoder, prompt = lean(folder, native=native), prompts(3)[2]
    decoder.taps["middle"] = 2
    with torch.no_grad():
        expected = model(prompt[None], output_hidden_states=True)
    state = decoder.open({}, max_positions=64)
    assert state is not None
    (result,) = decoder.step([TokenRows(sequence=state, ids=prompt, wants_hidden=True, wants_embeds=True)])
    assert result.logits is not None
    assert result.hidden is not None
    assert result.taps is not None
    torch.testing.assert_close(result.logits, expected.logits[0, -1], atol=1e-4, rtol=0)
    torch.testing.assert_close(result.hidden, expected.hidden_states[-1][0], atol=1e-4, rtol=0)
    torch.testing.assert_close(result.taps["middle"], expected.hidden_states[2][0], atol=1e-4, rtol=0)
    torch.testing.assert_close(result.embeds, expected.hidden_states[0][0], atol=0, rtol=0)


def test_a_ragged_batch_gives_each_sequence_what_it_gets_alone(llama: LeanDecoder) -> None:
    tokens = prompts(5)
    alone = [greedy(llama, [prompt], 9)[0] for prompt in tokens]
    assert greedy(llama, tokens, 9) == alone


@pytest.mark.parametrize("chunk", [1, 4])
def test_a_prompt_in_chunks_equals_the_whole_prompt(llama: LeanDecoder, chunk: int) -> None:
    assert greedy(llama, prompts(4), 6, chunk=chunk) == greedy(llama, prompts(4), 6)


def test_embeddings_as_input_equal_their_ids(llama: LeanDecoder) -> None:
    prompt = prompts(2)[1]
    logits = []
    for ids, embeds in ((prompt, None), (None, llama.embed(prompt))):
        state = llama.open({}, max_positions=32)
        assert state is not None
        (result,) = llama.step([TokenRows(sequence=state, ids=ids, embeds=embeds)])
        logits.append(result.logits)
        llama.close(state)
    assert torch.equal(logits[0], logits[1])


def test_logits_come_only_for_rows_that_want_them_and_hidden_states_too(llama: LeanDecoder) -> None:
    first, second = prompts(2)
    states = [llama.open({}, max_positions=32) for _ in range(2)]
    assert states[0] is not None
    assert states[1] is not None
    results = llama.step(
        [
            TokenRows(sequence=states[0], ids=first, wants_logits=False, wants_hidden=True),
            TokenRows(sequence=states[1], ids=second),
        ]
    )
    assert results[0].logits is None
    assert results[0].hidden is not None
    assert results[0].hidden.shape == (3, 32)
    assert results[1].logits is not None
    assert results[1].hidden is None
    assert results[1].taps is None
    assert [state.num_cached for state in states if state is not None] == [3, 8]
    for state in states:
        assert state is not None
        llama.close(state)
    assert llama.arena.num_live == 0
    assert llama.arena.usage() == llama.arena.recount()


def test_additions_reach_the_layers_below_which_they_are_added(llama: LeanDecoder) -> None:
    prompt = prompts(2)[1]
    shift = torch.randn(prompt.shape[0], 32, generator=torch.Generator().manual_seed(1))
    llama.taps["first"] = 1
    taps = []
    for additions in ((), (shift,)):
        state = llama.open({}, max_positions=32)
        assert state is not None
        (result,) = llama.step([LeanRows(sequence=state, ids=prompt, wants_hidden=True, additions=additions)])
        assert result.taps is not None
        taps.append(result.taps["first"])
        llama.close(state)
    del llama.taps["first"]
    torch.testing.assert_close(taps[1], taps[0] + shift)


def test_bfloat16_runs_and_stays_near_float32(made: dict[str, tuple[Any, Path]], native: bool) -> None:
    folder, prompt, found = made["qwen3"][1], prompts(2)[1], []
    for dtype in (torch.float32, torch.bfloat16):
        decoder = lean(folder, dtype, native=native)
        state = decoder.open({}, max_positions=32)
        assert state is not None
        (result,) = decoder.step([TokenRows(sequence=state, ids=prompt)])
        assert result.logits is not None
        assert result.logits.dtype == torch.float32
        found.append(result.logits)
    assert 0 < (found[0] - found[1]).norm() / found[0].norm() < 0.05


def test_a_sequence_waits_while_the_arena_is_full_and_is_refused_when_it_can_never_fit(
    made: dict[str, tuple[Any, Path]],
) -> None:
    decoder = lean(made["llama"][1], cache_tokens=32)
    first = decoder.open({}, max_positions=20)
    assert first is not None
    assert decoder.open({}, max_positions=20) is None
    decoder.close(first)
    assert decoder.open({}, max_positions=32) is not None
    with pytest.raises(ValueError, match="33 tokens can never fit the cache of 32"):
        decoder.open({}, max_positions=33)


def test_rows_that_break_the_contract_are_refused_before_anything_is_computed(llama: LeanDecoder) -> None:
    state = llama.open({}, max_positions=4)
    assert state is not None
    with pytest.raises(ValueError, match="5 new positions after 0 do not fit a sequence of 4"):
        llama.step([TokenRows(sequence=state, ids=torch.arange(5))])
    with pytest.raises(ValueError, match="either ids or embeds"):
        llama.step([TokenRows(sequence=state)])
    with pytest.raises(ValueError, match="only one row"):
        llama.step([TokenRows(sequence=state, ids=torch.arange(1))] * 2)
    with pytest.raises(ValueError, match="one axis"):
        llama.step([TokenRows(sequence=state, ids=torch.arange(2), positions=torch.zeros(3, 2, dtype=torch.int64))])
    assert state.num_cached == 0
    llama.close(state)
    with pytest.raises(ValueError, match="closed"):
        llama.close(state)
