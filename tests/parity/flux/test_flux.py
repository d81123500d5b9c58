"""Pictures of `specs/flux` are those of diffusers' pipeline, alone and in any company."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import save_file

import omniflow
from omniflow.commands.values import read_inputs
from tests.parity.diffusion import PROMPTS, drain, most_different, ours, program
from tests.parity.flux.conftest import Reference
from tests.parity.flux.reference import T5_LENGTH, run
from tests.parity.references import watching

pytestmark = pytest.mark.hf
References = Callable[..., Reference]
SIZE = {"height": 32, "width": 32}
CLOSE = 1e-5


def engine(reference: Reference, name: str = "flux/image", **params: Any) -> omniflow.Engine:
    return omniflow.load(program(reference.folder, name, text_length=T5_LENGTH, **params), trace=True)


@pytest.mark.parametrize("scheduler", ["dynamic", "static", "unipc"])
@pytest.mark.parametrize("seed", [0, 5])
def test_every_hand_off_equals_the_pipeline(references: References, scheduler: str, seed: int) -> None:
    reference = references(seed, scheduler=scheduler)
    wanted, theirs = run(reference.pipeline, PROMPTS[0], seed=1234 + seed, num_inference_steps=6, guidance_scale=3.5)
    running = engine(reference, steps=6)
    read: list[Any] = []
    with (
        watching(running.bound.experts["clip"], "encode", lambda given, answer: read.append((given["0"], answer))),
        watching(running.bound.experts["t5"], "encode", lambda given, answer: read.append((given["0"], answer))),
    ):
        result, steps = ours(running, {"prompt": PROMPTS[0], **SIZE}, seed=1234 + seed)
    found = {name: (rows[0]["tokens"], answer[0][name]) for rows, answer in read for name in answer[0]}
    assert torch.equal(found["pooled"][0], theirs.tokens[0])
    assert torch.equal(found["embeds"][0], theirs.tokens[1])
    assert most_different(found["pooled"][1], theirs.embeds[0]) <= CLOSE
    assert most_different(found["embeds"][1], theirs.embeds[1]) <= CLOSE
    assert len(steps.latents) == len(theirs.latents) == 6
    for mine, their in zip(steps.times, theirs.times, strict=True):
        assert 1 - mine == pytest.approx(their, abs=1e-7)
    for mine, their in zip(steps.latents, theirs.latents, strict=True):
        assert most_different(mine, their) <= CLOSE
    for mine, their in zip(steps.velocities, theirs.velocities, strict=True):
        assert most_different(-mine, their) <= CLOSE
    assert most_different(result.outputs["image"], wanted) <= CLOSE


@pytest.mark.parametrize("size", [(16, 48), (64, 32), (38, 30)])
def test_the_shift_follows_the_size_of_the_picture(references: References, size: tuple[int, int]) -> None:
    reference = references(1)
    height, width = size
    wanted, theirs = run(reference.pipeline, PROMPTS[1], seed=3, num_inference_steps=4, height=height, width=width)
    result, steps = ours(engine(reference, steps=4), {"prompt": PROMPTS[1], "height": height, "width": width}, seed=3)
    assert [1 - t for t in steps.times] == pytest.approx(theirs.times, abs=1e-7)
    assert most_different(result.outputs["image"], wanted) <= CLOSE


def test_recorded_tokens_replay_from_a_file(references: References, tmp_path: Path) -> None:
    reference = references(1)
    wanted, theirs = run(reference.pipeline, PROMPTS[1], seed=3, num_inference_steps=4)
    save_file({"clip": theirs.tokens[0][None], "t5": theirs.tokens[1][None]}, tmp_path / "in.safetensors")
    schedule = program(reference.folder, "flux/tensors", steps=4)
    file = f"@{tmp_path / 'in.safetensors'}"
    written = {"clip_tokens": f"{file}#clip", "t5_tokens": f"{file}#t5", "height": "32", "width": "32"}
    result, _ = ours(omniflow.load(schedule), read_inputs(schedule, written), seed=3)
    assert most_different(result.outputs["image"], wanted) <= CLOSE
    assert result.outputs["latents"].shape == theirs.latents[0].shape


def test_a_wide_transformer_equals_the_pipeline_alone_and_among_others(tmp_path: Path) -> None:
    wide = {"num_attention_heads": 8, "attention_head_dim": 64, "axes_dims_rope": (16, 24, 24)}
    reference = Reference(tmp_path, 4, sizes={"transformer": wide})
    running = engine(reference, steps=2)
    alone, _ = ours(running, {"prompt": PROMPTS[0], **SIZE}, seed=0)
    ids = [running.submit({"prompt": prompt, **SIZE}, seed=i, rng="torch") for i, prompt in enumerate(PROMPTS)]
    drain(running)
    for i, (request, prompt) in enumerate(zip(ids, PROMPTS, strict=True)):
        wanted, _ = run(reference.pipeline, prompt, seed=i, num_inference_steps=2)
        result = running.result(request)
        assert result is not None
        assert most_different(result.outputs["image"], wanted) <= CLOSE
        if i == 0:
            assert torch.equal(result.outputs["image"], alone.outputs["image"])


def test_guidance_against_a_negative_prompt_is_two_rows_of_one_batch(references: References) -> None:
    reference = references(2)
    wanted, _ = run(
        reference.pipeline, PROMPTS[0], seed=9, num_inference_steps=4, guidance_scale=2.0,
        negative_prompt=PROMPTS[1], true_cfg_scale=4.0,
    )  # fmt: skip
    running = engine(reference, "flux/true_cfg", steps=4)
    calls: list[int] = []
    model = running.bound.experts["transformer"]._model
    with watching(model, "forward", lambda given, answer: calls.append(len(given["hidden_states"]))):
        inputs = {"prompt": PROMPTS[0], "negative": PROMPTS[1], "guidance": 2.0, **SIZE}
        result, _ = ours(running, inputs, seed=9)
    assert calls == [2, 2, 2, 2]
    assert most_different(result.outputs["image"], wanted) <= CLOSE


def test_a_lost_negative_branch_would_be_another_picture(references: References) -> None:
    reference = references(2)
    with_it, _ = run(
        reference.pipeline, PROMPTS[0], seed=9, num_inference_steps=4, negative_prompt=PROMPTS[1], true_cfg_scale=4.0
    )
    without, _ = run(reference.pipeline, PROMPTS[0], seed=9, num_inference_steps=4)
    assert most_different(with_it, without) > 0.01


def test_checkpoints_without_guidance_have_their_own_program(references: References) -> None:
    reference = references(3, guided=False)
    wanted, _ = run(reference.pipeline, PROMPTS[2], seed=4, num_inference_steps=4)
    result, _ = ours(engine(reference, "flux/schnell", steps=4), {"prompt": PROMPTS[2], **SIZE}, seed=4)
    assert most_different(result.outputs["image"], wanted) <= CLOSE
    refused = engine(reference, steps=4).run({"prompt": PROMPTS[2], **SIZE})
    assert refused.state == "refused"
    assert "no embedding of guidance" in str(refused.error)


@pytest.mark.parametrize("empty", ["clip_tokens", "t5_tokens"])
def test_a_text_of_no_tokens_is_refused(references: References, empty: str) -> None:
    tokens: dict[str, list[int]] = {"clip_tokens": [3, 2], "t5_tokens": [3, 1]}
    running = omniflow.load(program(references(0).folder, "flux/tensors", steps=1))
    result = running.run({**tokens, empty: [], **SIZE})
    assert result.state == "refused"
    assert "a text of no tokens cannot be read" in str(result.error)


def test_strangers_at_other_times_and_sizes_change_nothing(references: References) -> None:
    reference = references(4)
    cases = [
        (prompt, seed, steps, size, guidance)
        for seed, (prompt, steps, size, guidance) in enumerate(
            zip(PROMPTS, (6, 4, 5, 3), ((32, 32), (32, 32), (16, 48), (32, 32)), (3.5, 1.0, 2.0, 7.0), strict=True)
        )
    ]
    running, ids = engine(reference, steps=6), []
    for prompt, seed, steps, (height, width), guidance in cases:
        inputs = {"prompt": prompt, "height": height, "width": width, "guidance": guidance}
        ids.append(running.submit(inputs, seed=seed, rng="torch", params={"paint.steps": steps}))
        for _ in range(7):  # the next one comes when this one is on its way
            running.step()
    drain(running)
    for request, (prompt, seed, steps, (height, width), guidance) in zip(ids, cases, strict=True):
        result = running.result(request)
        assert result is not None
        assert result.state == "done", result.error
        wanted, _ = run(
            reference.pipeline, prompt, seed=seed, num_inference_steps=steps, height=height, width=width,
            guidance_scale=guidance,
        )  # fmt: skip
        assert most_different(result.outputs["image"], wanted) <= CLOSE
    assert running.live == 0
    assert running.trace is not None
    units = [unit for unit in running.trace.units if unit.kind == "diffusion_step"]
    together = {(unit.start, unit.index) for unit in units if unit.width > 1}
    assert len({start for start, _ in together}) < len(together), "no batch held two requests at different steps"


def test_tiles_of_a_picture_are_close_to_the_whole(references: References) -> None:
    reference = references(0)
    inputs = {"prompt": PROMPTS[0], "height": 64, "width": 64}
    whole, _ = ours(engine(reference, steps=2), inputs, seed=1)
    tiled, _ = ours(engine(reference, steps=2, tile=20, overlap=8), inputs, seed=1)
    assert tiled.record["nodes"]["show"]["units"] == {"vae_tile": 4}
    difference = (tiled.outputs["image"] - whole.outputs["image"]).abs()
    assert 0 < float(difference.mean()) < 0.05  # norms and attention see the tile alone


def test_bfloat16_paints_nearly_the_same_picture(references: References) -> None:
    reference = references(0)
    inputs = {"prompt": PROMPTS[0], **SIZE}
    exact, _ = ours(engine(reference, steps=4), inputs, seed=2)
    rough, _ = ours(engine(reference, steps=4, dtype="bfloat16"), inputs, seed=2)
    difference = (rough.outputs["image"] - exact.outputs["image"]).abs()
    assert 0 < float(difference.mean()) < 0.05
