"""Films of `specs/cosmos3` are those of diffusers' pipeline; texts are understood once, where they lie."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pytest
import torch

import omniflow
from omniflow.errors import InputError
from omniflow.experts.lean import Checkpoint
from tests.parity.cosmos3.conftest import Reference
from tests.parity.cosmos3.reference import LAYERS, SUPPRESSED, film, write
from tests.parity.diffusion import drain, most_different, program
from tests.parity.references import watching

pytestmark = pytest.mark.hf
References = Callable[..., Reference]
PROMPT, NEGATIVE = "a red robot cat jumps over the river", "dark rain"
TEXTS = ("night sings with snow", "a slow wide shot of the city and the moon over a field", "the dog runs", "tree")
SIZE = {"frames": 5, "height": 32, "width": 32}
PLAIN = {"wanted/chat.system": "", "unwanted/chat.system": ""}
WRITING = {"describe.repetition_penalty": 1.3, "describe.suppress": SUPPRESSED}
CLOSE = 1e-5


def engine(reference: Reference, name: str, *, plain: bool = True, **params: Any) -> omniflow.Engine:
    if plain:
        params = {"caption": "{{ text }}", "negative_caption": "{{ text }}", **params}
    return omniflow.load(program(reference.folder, f"cosmos3/{name}", **params), trace=True)


@pytest.mark.parametrize("seed", [0, 4])
def test_every_hand_off_equals_the_published_models(references: References, seed: int) -> None:
    reference = references(seed)
    prompt_ids, new_ids, text = write(reference.pipeline, reference.writer, PROMPT, most=16)
    call = {"negative_prompt": NEGATIVE, "num_inference_steps": 6, "guidance_scale": 3.0}
    wanted = film(reference.pipeline, text, seed=1234 + seed, **call)
    running = engine(reference, "film", steps=6, cfg=3.0, max_tokens=16)
    mixture = running.bound.experts["mixture"]
    asked: list[tuple[Mapping[str, Any], float]] = []
    answered: list[Mapping[str, Any]] = []
    read: list[Any] = []

    def see(given: Mapping[str, Any], answer: Any) -> None:
        asked.append((given["0"][0], given["1"][0]))
        answered.append(answer[0])

    with (
        watching(mixture, "velocity", see),
        watching(mixture, "step", lambda given, answer: read.extend(row.ids.tolist() for row in given["0"])),
    ):
        result = running.run(
            {"prompt": PROMPT, "negative": NEGATIVE, **SIZE}, seed=1234 + seed, rng="torch", params={**PLAIN, **WRITING}
        )
    assert result.state == "done", result.error
    assert prompt_ids in read
    assert [ids[0] for ids in read if len(ids) == 1] == new_ids[:-1]
    assert result.outputs["text"] == text
    for tokens in wanted.tokens:
        assert tokens.tolist() in read
    assert [round(1000 * (1 - time)) for _, time in asked] == wanted.times
    for (latents, _), theirs, sound in zip(asked, wanted.latents, wanted.sounds, strict=True):
        assert most_different(latents["latents"], theirs) <= CLOSE
        assert most_different(latents["sound"], sound) <= CLOSE
    for velocity, theirs in zip(answered, wanted.velocities, strict=True):
        assert most_different(-velocity["latents"], theirs) <= CLOSE
    assert most_different(result.outputs["video"], wanted.video) <= CLOSE
    assert wanted.sound is not None
    assert most_different(result.outputs["audio"], wanted.sound) <= CLOSE
    assert running.live == 0


def test_recorded_tokens_replay_with_the_latents_of_both(references: References) -> None:
    reference = references(2)
    call = {"negative_prompt": NEGATIVE, "num_inference_steps": 3, "guidance_scale": 3.0}
    wanted = film(reference.pipeline, TEXTS[1], seed=8, **call)
    running = omniflow.load(program(reference.folder, "cosmos3/tensors", steps=3, cfg=3.0))
    inputs = {"tokens": wanted.tokens[0], "negative": wanted.tokens[1], **SIZE}
    result = running.run(inputs, seed=8, rng="torch")
    assert result.state == "done", result.error
    assert wanted.sound is not None
    assert most_different(result.outputs["video"], wanted.video) <= CLOSE
    assert most_different(result.outputs["audio"], wanted.sound) <= CLOSE
    assert result.outputs["latents"].shape == wanted.latents[0].shape
    assert result.outputs["sound_latents"].shape == wanted.sounds[0].shape


def test_a_text_is_understood_once_and_not_in_every_step(references: References) -> None:
    reference = references(0)
    steps = 5
    call = {"negative_prompt": NEGATIVE, "num_inference_steps": steps, "guidance_scale": 3.0}
    wanted = film(reference.pipeline, TEXTS[0], seed=1, sound=False, **call)
    running = engine(reference, "video", steps=steps, cfg=3.0)
    passes: list[int] = []
    layer = running.bound.experts["mixture"].generation._model.layers[0]
    with watching(layer.self_attn.to_k, "forward", lambda given, answer: passes.append(1)):
        result = running.run({"prompt": TEXTS[0], "negative": NEGATIVE, **SIZE}, seed=1, rng="torch", params=PLAIN)
    assert wanted.num_text_passes == 2 * steps
    assert len(passes) == 2
    nodes = result.record["nodes"]
    assert nodes["wanted/read"]["units"] == nodes["unwanted/read"]["units"] == {"ar_prefill": 1}
    assert nodes["film"]["units"] == {"diffusion_step": steps}
    assert running.trace is not None
    assert sum(unit.kind == "ar_prefill" for unit in running.trace.units) == 2
    assert torch.equal(result.outputs["video"], wanted.video)  # not only close: the same numbers are computed


def test_the_weights_are_there_once(references: References) -> None:
    reference = references(0)
    running = engine(reference, "film", steps=2, max_tokens=4)
    bound = {node.spec.id: node.expert for node in running.bound.nodes if node.spec.expert == "mixture"}
    assert set(bound) == {"describe", "wanted/read", "unwanted/read", "film"}
    assert len({id(expert) for expert in bound.values()}) == 1
    model = running.bound.experts["mixture"].generation._model
    held = {parameter.data_ptr(): parameter.numel() for parameter in model.parameters()}
    held[running.bound.experts["mixture"].embed(torch.tensor([0])).data_ptr()] = 0
    stored = Checkpoint(reference.folder / "transformer", stem="diffusion_pytorch_model")
    assert sum(held.values()) == sum(torch.Size(shape).numel() for shape in stored.shapes.values())
    assert running.bound.experts["mixture"].decoder._embed is model.embed_tokens.weight


def test_the_cache_is_handed_on_by_reference_and_given_back(references: References) -> None:
    running = engine(references(0), "video", steps=4, cfg=3.0)
    mixture = running.bound.experts["mixture"]
    seen: list[Any] = []
    with (
        watching(mixture, "velocity", lambda given, answer: seen.extend(row["condition"] for row in given["2"])),
        watching(mixture.arena, "free", lambda given, answer: seen.append("freed")),
    ):
        running.run({"prompt": TEXTS[0], "negative": NEGATIVE, **SIZE}, params=PLAIN)
    sequences = [item for item in seen if item != "freed"]
    assert len({id(sequence) for sequence in sequences}) == 2
    assert seen[-2:] == ["freed", "freed"]
    assert "freed" not in seen[:-2]
    assert mixture.arena.num_live == 0
    assert mixture.arena.usage() == mixture.arena.recount()


@pytest.mark.parametrize(("name", "size"), [("height", 33), ("width", 40.5), ("frames", 2.5), ("fps", True)])
def test_a_size_that_is_none_is_refused_although_a_loop_has_run_before_it(
    references: References, name: str, size: float
) -> None:
    running = engine(references(0), "video", steps=2, cfg=3.0)
    result = running.run({"prompt": TEXTS[0], "negative": NEGATIVE, **SIZE, name: size}, params=PLAIN)
    assert result.state == "refused"
    assert f"{name} " in str(result.error)
    assert running.live == 0


@pytest.mark.parametrize(("name", "size"), [("width", 1e9), ("frames", -0.5), ("fps", 10_000), ("fps", 1e-9)])
def test_a_size_beyond_the_limits_is_refused_at_the_door(references: References, name: str, size: float) -> None:
    running = engine(references(0), "video", steps=2, cfg=3.0)
    with pytest.raises(InputError, match=f"input {name} is {size}, the (least|most) allowed is "):
        running.submit({"prompt": TEXTS[0], "negative": NEGATIVE, **SIZE, name: size}, params=PLAIN)


def test_a_sound_without_end_is_refused_by_the_expert_too(references: References) -> None:
    running = omniflow.load(program(references(0).folder, "cosmos3/tensors", steps=2, cfg=3.0))
    with pytest.raises(ValueError, match="fps 1e-09 makes 5 frames last 5e\\+09 s"):
        running.bound.experts["mixture"].initial({**SIZE, "fps": 1e-9, "sound": True}, generator=torch.Generator())


@pytest.mark.parametrize("steps_before", range(12))
def test_a_request_that_is_cancelled_anywhere_leaves_nothing(references: References, steps_before: int) -> None:
    running = engine(references(0), "video", steps=4, cfg=3.0)
    request = running.submit({"prompt": TEXTS[0], "negative": NEGATIVE, **SIZE}, params=PLAIN)
    for _ in range(steps_before):
        running.step()
    running.cancel(request)
    drain(running)
    assert running.live == 0
    assert running.bound.experts["mixture"].arena.num_live == 0
    after = running.run({"prompt": TEXTS[0], "negative": NEGATIVE, **SIZE}, params=PLAIN)
    assert after.state == "done", after.error


def test_strangers_of_other_lengths_sizes_and_times_change_nothing(references: References) -> None:
    reference = references(1)
    cases = list(
        enumerate(
            zip(
                TEXTS, (4, 3, 5, 2), ((5, 32, 32), (5, 32, 32), (1, 16, 32), (5, 32, 32)), (24.0, 24.0, 24.0, 12.0),
                strict=True,
            )
        )
    )  # fmt: skip
    running, ids = engine(reference, "video", cfg=3.0), []
    for seed, (text, steps, (frames, height, width), fps) in cases:
        inputs = {"prompt": text, "negative": NEGATIVE, "frames": frames, "height": height, "width": width, "fps": fps}
        ids.append(running.submit(inputs, seed=seed, rng="torch", params={**PLAIN, "film.steps": steps}))
        for _ in range(6):
            running.step()
    drain(running)
    for request, (seed, (text, steps, (frames, height, width), fps)) in zip(ids, cases, strict=True):
        result = running.result(request)
        assert result is not None
        assert result.state == "done", result.error
        wanted = film(
            reference.pipeline, text, seed=seed, sound=False, negative_prompt=NEGATIVE, num_inference_steps=steps,
            guidance_scale=3.0, num_frames=frames, height=height, width=width, fps=fps,
        )  # fmt: skip
        assert most_different(result.outputs["video"], wanted.video) <= CLOSE
    assert running.live == 0
    assert running.trace is not None
    units = [unit for unit in running.trace.units if unit.kind == "diffusion_step"]
    together = {(unit.start, unit.index) for unit in units if unit.width > 1}
    assert len({start for start, _ in together}) < len(together), "no batch held two requests at different steps"


def test_captions_and_the_system_message_are_the_pipelines(references: References) -> None:
    reference = references(2)
    text = "the dog runs."
    call = {"num_inference_steps": 2, "guidance_scale": 3.0, "num_frames": 9, "fps": 12.0}
    wanted = film(reference.pipeline, text, seed=3, plain=False, **call)
    running = engine(reference, "film", plain=False, steps=2, cfg=3.0, max_tokens=2)
    read: list[list[int]] = []
    mixture = running.bound.experts["mixture"]
    captions: list[str] = []
    tokenizer = running.bound.experts["tokenizer"]
    with (
        watching(mixture, "step", lambda given, answer: read.extend(row.ids.tolist() for row in given["0"])),
        watching(tokenizer, "decode", lambda given, answer: None),
        watching(tokenizer, "encode_chat", lambda given, answer: captions.append(given["0"][-1]["content"])),
    ):
        result = running.run({"prompt": text, "frames": 9, "fps": 12.0, "height": 32, "width": 32}, params=WRITING)
    assert result.state == "done", result.error
    assert wanted.tokens[1].tolist() in read  # the negative prompt, empty but for its caption
    assert any(
        caption.endswith("seconds long and is of 12 FPS. This video is of 32x32 resolution.") for caption in captions
    )


def test_a_clip_without_sound_is_another_request_of_the_same_program(references: References) -> None:
    reference = references(1)
    running = engine(reference, "film", steps=3, cfg=3.0, max_tokens=4)
    inputs = {"prompt": PROMPT, "negative": NEGATIVE, **SIZE, "sound": False}
    result = running.run(inputs, seed=5, rng="torch", params={**PLAIN, **WRITING})
    assert result.state == "done", result.error
    assert len(result.outputs["audio"]) == 0
    _, _, text = write(reference.pipeline, reference.writer, PROMPT, most=4)
    wanted = film(
        reference.pipeline,
        text,
        seed=5,
        sound=False,
        negative_prompt=NEGATIVE,
        num_inference_steps=3,
        guidance_scale=3.0,
    )
    assert most_different(result.outputs["video"], wanted.video) <= CLOSE


def test_requests_take_turns_at_a_cache_that_is_too_small_for_all(references: References) -> None:
    """Each needs two caches at once: two requests with one each would wait for each other for ever."""
    reference = references(0)
    schedule = program(
        reference.folder, "cosmos3/video", steps=3, cfg=3.0, caption="{{ text }}", negative_caption="{{ text }}",
    )  # fmt: skip
    free = omniflow.load(schedule)
    inputs = [{"prompt": text, "negative": NEGATIVE, **SIZE} for text in TEXTS]
    alone = [free.run(given, seed=i, params=PLAIN) for i, given in enumerate(inputs)]
    running = omniflow.load(schedule, trace=True)
    arena = running.bound.experts["mixture"].arena
    held = arena.lease(arena.num_tokens - 2 * arena.block_tokens * 2)  # room for two texts, of two blocks at most
    assert held is not None
    try:
        ids = [running.submit(given, seed=i, params=PLAIN) for i, given in enumerate(inputs)]
        drain(running)
    finally:
        arena.free(held)
    for request, want in zip(ids, alone, strict=True):
        result = running.result(request)
        assert result is not None
        assert result.state == "done", result.error
        assert most_different(result.outputs["video"], want.outputs["video"]) <= CLOSE
    assert running.live == 0


def test_layers_of_both_kinds_are_as_many_as_the_checkpoint_has(references: References) -> None:
    mixture = engine(references(0), "video", steps=1).bound.experts["mixture"]
    assert mixture.arena.keys.shape[0] == LAYERS == len(mixture.generation._model.layers)
