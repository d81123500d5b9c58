"""How each family is asked the same by OmniFlow and by the library that it comes from, over one random checkpoint."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from families_sizes import Size
from torch import Tensor

import omniflow
from tests.parity import diffusion
from tests.parity.cosmos3 import reference as cosmos3
from tests.parity.csm import reference as csm
from tests.parity.diffusion import torch_seed
from tests.parity.flux import reference as flux
from tests.parity.musicgen import reference as musicgen
from tests.parity.qwen2_5_omni import reference as qwen2_5
from tests.parity.qwen3_omni import reference as qwen3
from tests.parity.wan import reference as wan

WORDS = ("w9 w10", "w50 w51 w52", "w120 w7 w33 w34", "w5", "w8 w88", "w14 w15 w92 w65 w35", "w27", "w18 w28 w18")


@dataclass(frozen=True, slots=True, kw_only=True)
class Contest:
    """One family at one size. peer: answers the request of a number and gives what is heard or seen of it; inputs: of
    that request; output: what OmniFlow calls it. `speaks` when it is sound and comes in pieces.
    """

    peer: Callable[[int], Tensor]
    engine: omniflow.Engine
    inputs: Callable[[int], Mapping[str, Any]]
    params: Mapping[str, Any]
    output: str
    speaks: bool


def _engine(name: str, folder: Path, outputs: Sequence[str], **params: Any) -> omniflow.Engine:
    values = {"weights": str(folder), **{key: str(value) for key, value in params.items()}}
    return omniflow.load(omniflow.compile(name, outputs=outputs, params=values))


def qwen2_5_omni(folder: Path, size: Size) -> Contest:
    """The streamed program; the peer's flow and vocoder wait for the last code. Greedy, so both say the same."""
    model = qwen2_5.build(folder, size.seed, block=24, sizes=size.parts)
    qwen2_5.add_tokenizer(folder)
    engine = _engine("qwen2_5_omni.stream", folder, ["audio"])
    never = qwen2_5.CODEC_BOS  # what is suppressed ends nothing: all speeches are as long as they may be
    case = replace(
        qwen2_5.cases()["text"],
        max_text=size.asked["text"],
        max_codes=size.asked["codes"],
        codec_pad=never,
        codec_end=never,
    )
    tokenize = engine.schedule.node("read/tokenize")
    system = {"role": "system", "content": str(tokenize.attributes["system"])}

    def ids(number: int) -> tuple[int, ...]:
        user = {"role": "user", "content": WORDS[number % len(WORDS)]}
        return tuple(engine.bound.experts["tokenizer"].encode_chat([system, user]))

    return Contest(
        peer=lambda i: qwen2_5.record(model, replace(case, prompts=(ids(i),)), seed=i).waves[0],
        engine=engine,
        inputs=lambda i: {"prompt": WORDS[i % len(WORDS)]},
        params={
            "think.stop": [case.eos],
            "think.max_tokens": case.max_text,
            "talk/speak.stop": [],
            "talk/speak.max_tokens": case.max_codes,
            "talk/speak.temperature": 0.0,
        },
        output="audio",
        speaks=True,
    )


def qwen3_omni(folder: Path, size: Size) -> Contest:
    model = qwen3.build(folder, size.seed, sizes=size.parts)
    qwen3.add_tokenizer(folder)
    engine = _engine("qwen3_omni.speech", folder, ["audio"])
    case = replace(qwen3.cases()["text"], max_text=size.asked["text"], max_frames=size.asked["frames"])

    def ids(number: int) -> tuple[int, ...]:
        user = {"role": "user", "content": WORDS[number % len(WORDS)]}
        return tuple(engine.bound.experts["tokenizer"].encode_chat([user]))

    return Contest(
        peer=lambda i: qwen3.record(model, replace(case, prompts=(ids(i),)), seed=i).waves[0],
        engine=engine,
        inputs=lambda i: {"prompt": WORDS[i % len(WORDS)]},
        params={
            "think.stop": [case.eos],
            "think.max_tokens": case.max_text,
            "talk/speak.max_tokens": case.max_frames,
            "talk/speak.repetition_penalty": case.penalty,
            "talk/speak.temperature": 0.0,
            "talk/speak.predict.temperature": 0.0,
        },
        output="audio",
        speaks=True,
    )


def csm_speech(folder: Path, size: Size) -> Contest:
    model = csm.build(folder, size.seed, sizes=size.parts)
    case = replace(csm.cases()["text"], max_frames=size.asked["frames"])
    prompts = [tuple(3 + (7 * i + 5 * k) % 60 for k in range(6 + i)) for i in range(8)]
    own = {"temperature": 0.0, "suppress": list(case.suppress)}
    asked = {f"speak.{loop}{name}": value for loop in ("", "deepen.") for name, value in own.items()}
    return Contest(
        peer=lambda i: csm.record(model, replace(case, prompts=(prompts[i % 8],)), seed=i).waves[0],
        engine=_engine("csm.tensors", folder, ["audio"]),
        inputs=lambda i: {"tokens": torch.tensor(prompts[i % 8])},
        params={**asked, "speak.max_tokens": case.max_frames, "speak.stop_frame": []},
        output="audio",
        speaks=True,
    )


def musicgen_music(folder: Path, size: Size) -> Contest:
    """Guided, greedy."""
    model = musicgen.build(folder, size.seed, sizes=size.parts)
    case = replace(musicgen.cases()["guided"], frames=size.asked["frames"])
    prompts = [(*(3 + (7 * i + 5 * k) % 60 for k in range(6 + i)), musicgen.TEXT_END) for i in range(8)]
    return Contest(
        peer=lambda i: musicgen.record(model, replace(case, prompts=(prompts[i % 8],)), seed=i).waves[0],
        engine=_engine("musicgen.tensors", folder, ["audio"]),
        inputs=lambda i: {"tokens": torch.tensor(prompts[i % 8])},
        params={"compose.temperature": 0.0, "compose.cfg": case.cfg, "compose.max_tokens": case.frames},
        output="audio",
        speaks=True,
    )


def cosmos3_film(folder: Path, size: Size) -> Contest:
    """Video and sound of the ids that diffusers makes of a text."""
    pipeline = cosmos3.build_pipeline(folder, size.seed, sizes=size.parts)
    steps, side = size.asked["steps"], size.asked["side"]
    texts = [" ".join(cosmos3.WORDS[3 + i : 9 + 2 * i]) for i in range(8)]
    tokens = [cosmos3.film(pipeline, text, seed=0, num_inference_steps=1).tokens for text in texts]
    plain = dict.fromkeys(("use_system_prompt", "add_resolution_template", "add_duration_template"), False)
    common = {"num_frames": 5, "height": side, "width": side, "output_type": "pt", "enable_sound": True, **plain}

    def film(number: int) -> Tensor:
        made = pipeline(texts[number % 8], generator=torch_seed(number), num_inference_steps=steps, **common)
        return made.video.permute(0, 2, 3, 1)

    def inputs(number: int) -> Mapping[str, Any]:
        wanted, unwanted = tokens[number % 8]
        return {"tokens": wanted, "negative": unwanted, "frames": 5, "height": side, "width": side}

    engine = _engine("cosmos3.tensors", folder, ["video", "audio"], steps=steps)
    return Contest(peer=film, engine=engine, inputs=inputs, params={}, output="video", speaks=False)


def flux_image(folder: Path, size: Size) -> Contest:
    pipeline = flux.build(folder, size.seed, sizes=size.parts)
    steps, side = size.asked["steps"], size.asked["side"]
    call = {"num_inference_steps": steps, "height": side, "width": side, "max_sequence_length": flux.T5_LENGTH}

    def paint(number: int) -> Tensor:
        made = pipeline(_prompt(number), generator=torch_seed(number), output_type="pt", **call)
        return made.images[0].permute(1, 2, 0)

    return Contest(
        peer=paint,
        engine=_engine("flux.image", folder, ["image"], steps=steps, text_length=flux.T5_LENGTH),
        inputs=lambda i: {"prompt": _prompt(i), "height": side, "width": side},
        params={},
        output="image",
        speaks=False,
    )


def wan_video(folder: Path, size: Size) -> Contest:
    pipeline = wan.build(folder, size.seed, sizes=size.parts)
    steps, side = size.asked["steps"], size.asked["side"]
    call = {"num_inference_steps": steps, "height": side, "width": side, "max_sequence_length": wan.TEXT_LENGTH}

    def film(number: int) -> Tensor:
        made = pipeline(_prompt(number), generator=torch_seed(number), output_type="pt", num_frames=5, **call)
        return made.frames[0].permute(0, 2, 3, 1)

    return Contest(
        peer=film,
        engine=_engine("wan.video", folder, ["video"], steps=steps, text_length=wan.TEXT_LENGTH),
        inputs=lambda i: {"prompt": _prompt(i), "height": side, "width": side, "frames": 5},
        params={},
        output="video",
        speaks=False,
    )


def _prompt(number: int) -> str:
    return diffusion.PROMPTS[number % len(diffusion.PROMPTS)]


CONTESTS: Mapping[str, Callable[[Path, Size], Contest]] = {
    "qwen2_5_omni": qwen2_5_omni,
    "qwen3_omni": qwen3_omni,
    "csm": csm_speech,
    "musicgen": musicgen_music,
    "cosmos3": cosmos3_film,
    "flux": flux_image,
    "wan": wan_video,
}
