"""Clips of `specs/wan` are those of diffusers' pipeline, alone and in any company."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

import omniflow
from omniflow.errors import BindError
from tests.parity.diffusion import PROMPTS, drain, most_different, ours, program
from tests.parity.references import watching
from tests.parity.wan.conftest import Reference
from tests.parity.wan.reference import TEXT_LENGTH, run

pytestmark = pytest.mark.hf
References = Callable[..., Reference]
SIZE = {"frames": 5, "height": 32, "width": 32}
CLOSE = 1e-5


def engine(reference: Reference, **params: Any) -> omniflow.Engine:
    return omniflow.load(program(reference.folder, "wan/video", text_length=TEXT_LENGTH, **params), trace=True)


@pytest.mark.parametrize("scheduler", ["euler", "unipc"])
@pytest.mark.parametrize("seed", [0, 3])
def test_every_hand_off_equals_the_pipeline(references: References, scheduler: str, seed: int) -> None:
    reference = references(seed, scheduler=scheduler)
    wanted, theirs = run(
        reference.pipeline, PROMPTS[0], seed=1234 + seed, negative_prompt=PROMPTS[1], num_inference_steps=5,
        guidance_scale=4.0,
    )  # fmt: skip
    running = engine(reference, steps=5, cfg=4.0)
    read: list[Any] = []
    with watching(running.bound.experts["umt5"], "encode", lambda given, answer: read.append((given["0"], answer))):
        result, steps = ours(running, {"prompt": PROMPTS[0], "negative": PROMPTS[1], **SIZE}, seed=1234 + seed)
    pairs = [(row, found) for rows, answer in read for row, found in zip(rows, answer, strict=True)]
    for tokens, embeds in zip(theirs.tokens, theirs.embeds, strict=True):
        (found,) = (found["embeds"] for row, found in pairs if torch.equal(row["tokens"], tokens))
        assert most_different(found, embeds) <= CLOSE
    assert steps.times == pytest.approx([1 - t for t in theirs.times[::2]], abs=1e-7)
    for mine, their in zip(steps.latents, theirs.latents[::2], strict=True):
        assert most_different(mine, their) <= CLOSE
    for mine, their in zip(steps.velocities, theirs.velocities[::2], strict=True):
        assert most_different(-mine, their) <= CLOSE
    assert most_different(result.outputs["video"], wanted) <= CLOSE


@pytest.mark.parametrize(("frames", "height", "width"), [(1, 32, 48), (8, 48, 32), (9, 16, 16)])
def test_clips_of_any_size_equal_the_pipeline(references: References, frames: int, height: int, width: int) -> None:
    reference = references(1)
    call = {"num_frames": frames, "height": height, "width": width, "num_inference_steps": 3}
    wanted, _ = run(reference.pipeline, PROMPTS[1], seed=5, guidance_scale=5.0, **call)
    inputs = {"prompt": PROMPTS[1], "frames": frames, "height": height, "width": width}
    result, _ = ours(engine(reference, steps=3), inputs, seed=5)
    assert most_different(result.outputs["video"], wanted) <= CLOSE


def test_text_is_tidied_as_the_pipeline_does(references: References) -> None:
    reference = references(1)
    prompt = "  the  dog &amp;amp; <cat>\n runs &nbsp; "
    wanted, _ = run(reference.pipeline, prompt, seed=5, num_inference_steps=2, guidance_scale=5.0)
    result, _ = ours(engine(reference, steps=2), {"prompt": prompt, **SIZE}, seed=5)
    assert most_different(result.outputs["video"], wanted) <= CLOSE


def test_recorded_embeddings_replay(references: References) -> None:
    reference = references(1)
    wanted, theirs = run(
        reference.pipeline, PROMPTS[1], seed=3, num_inference_steps=3, guidance_scale=5.0, negative_prompt=PROMPTS[0]
    )
    running = omniflow.load(program(reference.folder, "wan/tensors", steps=3))
    result, _ = ours(running, {"embeds": theirs.embeds[0], "negative": theirs.embeds[1], **SIZE}, seed=3)
    assert most_different(result.outputs["video"], wanted) <= CLOSE


def test_guidance_that_is_off_runs_one_row(references: References) -> None:
    reference = references(1)
    wanted, _ = run(reference.pipeline, PROMPTS[0], seed=2, num_inference_steps=3, guidance_scale=1.0)
    running = engine(reference, steps=3, cfg=1.0)
    heights: list[int] = []
    model = running.bound.experts["transformer"]._model
    with watching(model, "forward", lambda given, answer: heights.append(len(given["hidden_states"]))):
        result, _ = ours(running, {"prompt": PROMPTS[0], **SIZE}, seed=2)
    assert heights == [1, 1, 1]
    assert most_different(result.outputs["video"], wanted) <= CLOSE


def test_strangers_at_other_times_and_sizes_change_nothing(references: References) -> None:
    reference = references(2)
    cases = list(
        enumerate(zip(PROMPTS, (4, 3, 5, 2), ((5, 32, 32), (5, 32, 32), (9, 16, 32), (5, 32, 32)), strict=True))
    )
    running, ids = engine(reference, cfg=3.0), []
    for seed, (prompt, steps, (frames, height, width)) in cases:
        inputs = {"prompt": prompt, "negative": PROMPTS[-1], "frames": frames, "height": height, "width": width}
        ids.append(running.submit(inputs, seed=seed, rng="torch", params={"paint.steps": steps}))
        for _ in range(5):
            running.step()
    drain(running)
    for request, (seed, (prompt, steps, (frames, height, width))) in zip(ids, cases, strict=True):
        result = running.result(request)
        assert result is not None
        assert result.state == "done", result.error
        wanted, _ = run(
            reference.pipeline, prompt, seed=seed, num_inference_steps=steps, num_frames=frames, height=height,
            width=width, negative_prompt=PROMPTS[-1], guidance_scale=3.0,
        )  # fmt: skip
        assert most_different(result.outputs["video"], wanted) <= CLOSE
    assert running.live == 0
    assert running.trace is not None
    units = [unit for unit in running.trace.units if unit.kind == "diffusion_step"]
    together = {(unit.start, unit.index) for unit in units if unit.width > 1}
    assert len({start for start, _ in together}) < len(together), "no batch held two requests at different steps"


def test_a_wide_transformer_equals_the_pipeline_alone_and_among_others(tmp_path: Path) -> None:
    wide = {"num_attention_heads": 8, "attention_head_dim": 64, "ffn_dim": 1024, "freq_dim": 256}
    reference = Reference(tmp_path, 4, sizes={"transformer": wide})
    running = engine(reference, steps=2, cfg=1.0)
    alone, _ = ours(running, {"prompt": PROMPTS[0], **SIZE}, seed=0)
    ids = [running.submit({"prompt": prompt, **SIZE}, seed=i, rng="torch") for i, prompt in enumerate(PROMPTS)]
    drain(running)
    for i, (request, prompt) in enumerate(zip(ids, PROMPTS, strict=True)):
        wanted, _ = run(reference.pipeline, prompt, seed=i, num_inference_steps=2, guidance_scale=1.0)
        result = running.result(request)
        assert result is not None
        assert most_different(result.outputs["video"], wanted) <= CLOSE
        if i == 0:
            assert torch.equal(result.outputs["video"], alone.outputs["video"])


def test_tiles_of_frames_are_close_to_the_whole(references: References) -> None:
    reference = references(0)
    inputs = {"prompt": PROMPTS[0], "frames": 5, "height": 64, "width": 64}
    whole, _ = ours(engine(reference, steps=2), inputs, seed=1)
    tiled, _ = ours(engine(reference, steps=2, tile=6, overlap=2), inputs, seed=1)
    assert tiled.record["nodes"]["show"]["units"] == {"vae_tile": 4}
    difference = (tiled.outputs["video"] - whole.outputs["video"]).abs()
    assert difference.shape == (5, 64, 64, 3)
    assert 0 < float(difference.mean()) < 0.08  # attention sees the tile alone


@pytest.mark.parametrize(
    ("file", "change", "message"),
    [
        ("model_index.json", {"boundary_ratio": 0.9}, "boundary_ratio = 0.9 is not supported"),
        ("model_index.json", {"expand_timesteps": True}, "expand_timesteps = True is not supported"),
        ("transformer/config.json", {"image_dim": 1280}, "pictures to clips"),
        ("scheduler/scheduler_config.json", {"_class_name": "UniPCMultistepScheduler"}, "prediction_type"),
    ],
)
def test_what_is_not_supported_is_named(
    references: References, tmp_path: Path, file: str, change: dict[str, Any], message: str
) -> None:
    folder = Path(shutil.copytree(references(0).folder, tmp_path / "copy"))
    path = folder / file
    path.write_text(json.dumps({**json.loads(path.read_text()), **change}))
    with pytest.raises(BindError, match=message):
        omniflow.load(program(folder, "wan/video"))
