"""The native step: equal to plain torch, bit-equal in any batch, absent without a compiler, safe to call wrongly."""

from __future__ import annotations

import ctypes
import os
import platform
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch

from omniflow.experts.lean import (
    LeanConfig,
    LeanDecoder,
    Quantize,
    RopeConfig,
    TensorNames,
    Tensors,
    from_source,
    random,
    random_tensors,
)
from omniflow.native import build, load_native
from omniflow.native.binding import Kind, NativeModel, NativeShape, StepInput, open_library
from omniflow.native.build import library
from omniflow.roles import TokenRows
from tests.experts.lean.models import greedy, prompts

needs_native = pytest.mark.skipif(load_native() is None, reason="there is no C++ compiler")

# Sizes that are no multiples of anything the kernels like, and heads longer than a vector.
ODD = LeanConfig(
    vocab_size=203,
    hidden_size=77,
    intermediate_size=131,
    num_layers=3,
    num_heads=6,
    num_kv_heads=2,
    head_dim=22,
    norm_eps=1e-5,
    rope=RopeConfig(theta=10000.0),
    qkv_bias=True,
    output_bias=True,
    mlp_bias=True,
    qk_norm=True,
)
WIDE = LeanConfig(
    vocab_size=1000,
    hidden_size=320,
    intermediate_size=512,
    num_layers=2,
    num_heads=4,
    num_kv_heads=1,
    head_dim=80,
    norm_eps=1e-5,
    rope=RopeConfig(theta=10000.0),
    tied_head=True,
)


KINDS: list[dict[str, Any]] = [
    {"dtype": torch.float32}, {"dtype": torch.bfloat16}, {"quantize": "int8"}, {"quantize": "int4"}
]  # fmt: skip


def _logits(decoder: LeanDecoder, ids: torch.Tensor, chunks: list[int], beside: int = 0) -> torch.Tensor:
    """Logits of the last position, the ids given in chunks, beside rows of other sequences."""
    states = [decoder.open({}, max_positions=64) for _ in range(1 + beside)]
    at = 0
    for size in chunks:
        rows = [
            TokenRows(sequence=state, ids=ids[at : at + size] if i == 0 else ids[i : i + 2])
            for i, state in enumerate(states)
            if state is not None
        ]
        result = decoder.step(rows[::-1])[-1]
        at += size
    for state in states:
        assert state is not None
        decoder.close(state)
    assert at == len(ids)
    assert result.logits is not None
    return result.logits


@needs_native
@pytest.mark.parametrize("config", [ODD, WIDE])
def test_native_and_torch_give_the_same_ids_and_logits(config: LeanConfig) -> None:
    native, plain = random(config, 0), random(config, 0, native=False)
    tokens = [prompt % config.vocab_size for prompt in prompts(5)]
    assert greedy(native, tokens, 10) == greedy(plain, tokens, 10)
    difference = _logits(native, tokens[4], [23]) - _logits(plain, tokens[4], [23])
    assert difference.abs().max() < 1e-4


@needs_native
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("config", [ODD, WIDE])
@pytest.mark.parametrize("threads", [1, 2])
def test_a_rows_bits_do_not_depend_on_its_neighbours_nor_on_chunks(
    config: LeanConfig, kind: dict[str, Any], threads: int
) -> None:
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    decoder = random(config, 0, **kind)
    ids = prompts(5)[4]
    whole = _logits(decoder, ids, [23])
    assert torch.equal(whole, _logits(decoder, ids, [1] * 23))
    assert torch.equal(whole, _logits(decoder, ids, [7, 1, 15], beside=4))
    torch.set_num_threads(before)


@needs_native
def test_int8_weights_stay_near_float32_and_bfloat16_nearer() -> None:
    ids, exact = prompts(5)[4], random(WIDE, 0)
    expected = _logits(exact, ids, [23])
    errors = []
    for decoder in (random(WIDE, 0, dtype=torch.bfloat16), random(WIDE, 0, quantize="int8")):
        errors.append(float((_logits(decoder, ids, [23]) - expected).norm() / expected.norm()))
    assert 0 < errors[0] < errors[1] < 0.05


@needs_native
def test_int8_natively_is_nearer_to_full_weights_than_by_the_library() -> None:
    ids = prompts(5)[4]
    native, plain = random(WIDE, 0, quantize="int8"), random(WIDE, 0, quantize="int8", native=False)
    full = _logits(random(WIDE, 0), ids, [23])
    errors = [(_logits(decoder, ids, [23]) - full).norm() / full.norm() for decoder in (native, plain)]
    assert 0 < errors[0] < errors[1] < 0.05


@needs_native
def test_one_large_activation_costs_only_its_own_group_its_precision() -> None:
    tensors = random_tensors(WIDE, 0)
    for name in tensors:
        if name.endswith("norm.weight"):
            tensors[name][3] = 100.0  # trained models have columns far above the others
    forms: tuple[tuple[Quantize, bool], ...] = (("none", True), ("int8", True), ("int8", False))
    full, native, plain = (
        _logits(_with(tensors, quantize, native=native), prompts(5)[4], [23]) for quantize, native in forms
    )
    assert (native - full).norm() < 0.7 * (plain - full).norm()


def _with(tensors: dict[str, torch.Tensor], quantize: Quantize, *, native: bool) -> LeanDecoder:
    return from_source(
        WIDE,
        Tensors(tensors, place="test"),
        names=TensorNames(),
        dtype=torch.float32,
        device=torch.device("cpu"),
        cache_tokens=64,
        block_tokens=16,
        native=native,
        quantize=quantize,
    )


def test_without_a_compiler_or_when_switched_off_there_is_no_library(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CXX", "no-such-compiler")
    assert library() is None
    monkeypatch.delenv("CXX")
    monkeypatch.setenv("OMNIFLOW_NATIVE", "0")
    assert library() is None


@needs_native
@pytest.mark.heavy
def test_the_library_is_built_once_into_the_users_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OMNIFLOW_CACHE", str(tmp_path))
    path = library()
    assert path is not None
    assert path.is_relative_to(tmp_path)
    stamp = path.stat().st_mtime_ns
    assert library() == path
    assert path.stat().st_mtime_ns == stamp
    assert [entry.name for entry in path.parent.iterdir()] == [path.name]


@needs_native
def test_a_broken_compiler_means_plain_torch_and_one_warning(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    broken = tmp_path / "c++"
    broken.write_text("#!/bin/sh\necho cannot compile >&2\nexit 1\n")
    broken.chmod(0o755)
    monkeypatch.setenv("CXX", str(broken))
    monkeypatch.setenv("OMNIFLOW_CACHE", str(tmp_path / "cache"))
    assert library() is None
    assert ["cannot compile" in record.message for record in caplog.records] == [True]


@needs_native
@pytest.mark.heavy
def test_a_compiler_without_openmp_builds_a_step_for_one_thread(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = shutil.which(os.environ.get("CXX", "c++")) or "c++"
    plain = tmp_path / "c++"
    plain.write_text(f'#!/bin/sh\ncase "$*" in *-fopenmp*) exit 1;; esac\nexec {real} "$@"\n')
    plain.chmod(0o755)
    monkeypatch.setenv("CXX", str(plain))
    monkeypatch.setenv("OMNIFLOW_CACHE", str(tmp_path / "cache"))
    path = library()
    assert path is not None
    expected = _logits(random(WIDE, 0), prompts(5)[4], [23])
    monkeypatch.setattr("omniflow.experts.lean.build.load_native", lambda: open_library(path))
    assert torch.equal(_logits(random(WIDE, 0), prompts(5)[4], [23]), expected)


@needs_native
@pytest.mark.heavy
@pytest.mark.skipif(platform.machine() != "x86_64", reason="names an x86 architecture")
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("architecture", ["x86-64", "x86-64-v3"])
def test_a_processor_without_wide_vectors_computes_the_same(
    kind: dict[str, Any], architecture: str, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    ids = prompts(5)[4]
    expected = _logits(random(ODD, 0, **kind), ids, [23])
    monkeypatch.setenv("OMNIFLOW_CACHE", str(tmp_path_factory.getbasetemp() / "narrow"))
    monkeypatch.setattr(build, "ARCHITECTURE", architecture)
    path = library()
    assert path is not None
    monkeypatch.setattr("omniflow.experts.lean.build.load_native", lambda: open_library(path))
    decoder = random(ODD, 0, **kind)
    tolerance = 1e-4 if kind == {"dtype": torch.float32} else 5e-2  # bfloat16 and int8 round where sums differ
    assert (_logits(decoder, ids, [23]) - expected).abs().max() < tolerance
    assert torch.equal(_logits(decoder, ids, [23]), _logits(decoder, ids, [1] * 23))


def _small_model(native: ctypes.CDLL) -> NativeModel:
    shape = NativeShape(hidden=8, inner=8, heads=2, kv_heads=1, head_dim=4, vocab=10, epsilon=1e-5, kind=Kind.FLOAT32)
    model = NativeModel(native, shape)
    model.add_layer(
        {
            "attention_norm": torch.ones(8),
            "mlp_norm": torch.ones(8),
            "qkv": torch.ones(16, 8),
            "output": torch.ones(8, 8),
            "gate_up": torch.ones(16, 8),
            "down": torch.ones(8, 8),
        }
    )
    model.finish(norm=torch.ones(8), head=None)
    return model


def _input(
    *,
    spans: tuple[tuple[int, int, int, int], ...] = ((0, 2, 0, 0),),
    wanted: tuple[int, ...] = (),
    taps: tuple[int, ...] = (),
    arena: tuple[int, ...] = (1, 16, 1, 4),
    embeds: tuple[int, int] = (2, 8),
    embed_rows: tuple[int, ...] = (0, 1),
    rotation_rows: tuple[int, ...] = (0, 1),
) -> StepInput:
    return StepInput(
        embeds=torch.ones(embeds),
        embed_rows=embed_rows,
        cosines=torch.ones(2, 2),
        sines=torch.zeros(2, 2),
        rotation_rows=rotation_rows,
        spans=spans,
        wanted=wanted,
        wants_hidden=True,
        tap_layers=taps,
        additions=(),
        keys=torch.zeros(arena),
        values=torch.zeros(arena),
    )


@needs_native
def test_everything_out_of_bounds_is_refused_before_the_native_code_runs() -> None:
    native = load_native()
    assert native is not None
    model = _small_model(native)
    assert model.step(_input(), threads=1).hidden is not None
    wrong = [
        (_input(spans=((0, 2, 0, 15),)), "leaves the arena"),
        (_input(spans=((0, 2, -1, 0),)), "leaves the arena"),
        (_input(spans=((1, 1, 0, 0),)), "leaves the arena of 16 tokens or the batch"),
        (_input(spans=((0, 1, 0, 0),)), "cover 1 of 2 rows"),
        (_input(wanted=(0,)), "without a head"),
        (_input(taps=(1,)), "must belong to the 1 layers"),
        (_input(arena=(1, 16, 1, 8)), "keys must be contiguous"),
        (_input(embeds=(2, 9)), "embeds must be contiguous float32"),
        (_input(embed_rows=(0, 2)), "2 of 2 rows choose among 2 embeds, or one that is not there"),
        (_input(embed_rows=(-1, 0)), "choose among 2 embeds, or one that is not there"),
        (_input(rotation_rows=(0, 2)), "choose among 2 cosines and sines, or one that is not there"),
        (_input(rotation_rows=(0,)), "1 of 2 rows choose among 2 cosines and sines"),
    ]
    for batch, message in wrong:
        with pytest.raises(ValueError, match=message):
            model.step(batch, threads=1)
    with pytest.raises(ValueError, match=r"qkv has shape \[3, 8\], expected \[16, 8\]"):
        model.add_layer({"attention_norm": torch.ones(8), "mlp_norm": torch.ones(8), "qkv": torch.ones(3, 8)})


@needs_native
@pytest.mark.parametrize("threads", [1, 2])
def test_the_likeliest_ids_come_with_the_logits_and_not_where_one_is_no_number(threads: int) -> None:
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        decoder = random(WIDE, 0)
        rows = []
        for i in range(9):
            sequence = decoder.open({}, max_positions=16)
            assert sequence is not None
            embeds = decoder.embed(torch.arange(i, i + 3))
            rows.append(TokenRows(sequence=sequence, embeds=embeds * float("nan") if i == 4 else embeds))
        results = decoder.step(rows)
    finally:
        torch.set_num_threads(before)
    likeliest = [int(result.logits.argmax()) for result in results if result.logits is not None]
    assert [result.best for result in results] == [-1 if i == 4 else best for i, best in enumerate(likeliest)]


@needs_native
@pytest.mark.parametrize("has_equal_logits", [False, True])
def test_however_many_threads_share_a_step_the_bits_and_the_likeliest_ids_are_the_same(has_equal_logits: bool) -> None:
    """More rows than a block, more threads than processors or than pieces of some products: shares are taken over."""
    native = load_native()
    assert native is not None
    generator = torch.Generator().manual_seed(0)

    def weights(*size: int) -> torch.Tensor:
        return torch.randn(*size, generator=generator) * 0.2

    shape = NativeShape(
        hidden=96, inner=176, heads=6, kv_heads=3, head_dim=16, vocab=9000, epsilon=1e-5, kind=Kind.BFLOAT16
    )
    model = NativeModel(native, shape)
    for _ in range(3):
        norm, qkv, gate_up = torch.ones(96), weights(192, 96), weights(352, 96)
        layer = {"attention_norm": norm, "qkv": qkv, "output": weights(96, 96)}
        model.add_layer(layer | {"mlp_norm": norm, "gate_up": gate_up, "down": weights(96, 176)})
    head = weights(9000, 96)
    if has_equal_logits:  # from near the end of the first of nine shares on
        head[:928], head[928:] = 0.0, head[-1].clone()
    model.finish(norm=torch.ones(96), head=head)
    embeds, turns = weights(300, 96), torch.arange(140.0)[:, None] * torch.rand(8, generator=generator)

    def run(threads: int) -> tuple[torch.Tensor, list[int]]:
        keys = torch.zeros(3, 160, 3, 16, dtype=torch.bfloat16)
        batch = StepInput(
            embeds=embeds,
            embed_rows=[7 * row % 300 for row in range(133)],
            cosines=turns.cos(),
            sines=turns.sin(),
            rotation_rows=[*range(130), 0, 0, 0],
            spans=[(0, 130, 0, 0), *((130 + i, 1, 0, 130 + i) for i in range(3))],
            wanted=[129, 130, 131, 132],
            wants_hidden=False,
            tap_layers=(),
            additions=(),
            keys=keys,
            values=keys.clone(),
        )
        output = model.step(batch, threads=threads)
        assert output.logits is not None
        return output.logits, list(output.best)

    logits, best = run(1)
    assert best == [int((row == row.max()).nonzero()[0]) for row in logits]
    for threads in (2, 3, 5, *[9] * 20):
        others, others_best = run(threads)
        assert torch.equal(others, logits)
        assert others_best == best
