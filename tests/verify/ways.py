"""How each program of the catalogue is verified: a checkpoint that makes it small, compile params, and requests."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch

PROMPTS = ("photo of a red robot cat with a hat", "the dog sits under the moon", "a river")
LENGTHS = (9, 4, 17)
Inputs = Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Way:
    """checkpoint: what of CHECKPOINTS is given as `weights`; requests: the inputs of each."""

    checkpoint: str = ""
    params: Mapping[str, str] = field(default_factory=dict)
    requests: Callable[[], Sequence[Inputs]]
    has_trained_weights: bool = False


def prompts(name: str = "prompt", texts: Sequence[str] = PROMPTS, **common: Any) -> Callable[[], list[Inputs]]:
    """A request per text, with the same further inputs."""
    return lambda: [{name: text, **common} for text in texts]


def conversation(*turns: str) -> list[dict[str, str]]:
    """Messages of a user, each but the last with an answer."""
    asked = [{"role": "user", "content": turn} for turn in turns]
    answered = [{"role": "assistant", "content": "a cat"} for _ in turns]
    return [message for pair in zip(asked, answered, strict=True) for message in pair][:-1]


def sized(**common: Any) -> Callable[[], list[Inputs]]:
    """Prompts for pictures of two sizes."""
    return lambda: [{"prompt": p, "height": 32, "width": 16 + 16 * (i % 2), **common} for i, p in enumerate(PROMPTS)]


def tokens(vocabulary: int, *names: str, start: int = 0, **common: Any) -> Callable[[], list[Inputs]]:
    """Ids of several lengths for every name."""
    generator = torch.Generator().manual_seed(5)

    def draw(length: int) -> torch.Tensor:
        return torch.randint(start, vocabulary, (length,), generator=generator)

    return lambda: [{**{name: draw(length) for name in names}, **common} for length in LENGTHS]


def rows(features: int, *names: str, **common: Any) -> Callable[[], list[Inputs]]:
    """Embeddings of several lengths for every name."""
    generator = torch.Generator().manual_seed(6)

    def draw(length: int) -> torch.Tensor:
        return torch.randn(length, features, generator=generator)

    return lambda: [{**{name: draw(length) for name in names}, **common} for length in LENGTHS]


def qwen2_5_omni(folder: Path) -> None:
    from tests.parity.qwen2_5_omni import reference

    reference.build(folder, 0)
    reference.add_tokenizer(folder)


def heard_and_seen(module: str) -> Callable[[], list[Inputs]]:
    """Words alone, with a sound, and with a picture."""

    def make() -> list[Inputs]:
        from importlib import import_module

        known = import_module(f"tests.parity.{module}.reference").cases()
        inputs = import_module(f"tests.parity.{module}.running").inputs
        return [inputs(known[name]) for name in ("text", "sound", "picture")]

    return make


def played_and_shown(*texts: str) -> Callable[[], list[Inputs]]:
    """Prompts: the first alone, the second with a sound, the third with another sound and a picture."""
    generator = torch.Generator().manual_seed(8)
    sounds = [0.3 * torch.randn(length, generator=generator) for length in (700, 5000)]
    picture = torch.randint(0, 256, (9, 14, 3), generator=generator, dtype=torch.uint8)
    media: list[Inputs] = [{}, {"audio": [sounds[0]]}, {"audio": [sounds[1]], "image": [picture]}]
    return lambda: [{"prompt": text, **more} for text, more in zip(texts, media, strict=True)]


def qwen3_omni(folder: Path) -> None:
    from tests.parity.qwen3_omni import reference

    reference.build(folder, 0)
    reference.add_tokenizer(folder)


def csm(folder: Path) -> None:
    from tests.parity.csm import reference

    reference.build(folder, 0)
    reference.add_tokenizer(folder)


def musicgen(folder: Path) -> None:
    from tests.parity.musicgen import reference

    reference.build(folder, 0)
    reference.add_tokenizer(folder)


def stereo(folder: Path) -> None:
    from tests.parity.musicgen import reference

    reference.build(folder, 0, sizes=reference.STEREO)
    reference.add_tokenizer(folder)


def flux(folder: Path) -> None:
    from tests.parity.flux import reference

    reference.build(folder, 0)


def schnell(folder: Path) -> None:
    from tests.parity.flux import reference

    reference.build(folder, 0, guided=False)


def wan(folder: Path) -> None:
    from tests.parity.wan import reference

    reference.build(folder, 0)


def cosmos3(folder: Path) -> None:
    from tests.parity.cosmos3 import reference

    reference.build(folder, 0)


def llama(folder: Path) -> None:
    from tests.experts.lean.models import make
    from tests.parity.diffusion import WORDS, word_tokenizer

    make("llama", folder)
    word_tokenizer(begins=False, most=256).save_pretrained(folder)
    turn = "{% for m in messages %}<bos> {{ m.content }} <eos> {% endfor %}<bos> "
    (folder / "chat_template.jinja").write_text(turn, encoding="utf-8")
    (folder / "generation_config.json").write_text(json.dumps({"eos_token_id": len(WORDS)}), encoding="utf-8")


MAKERS = (qwen2_5_omni, qwen3_omni, csm, musicgen, stereo, flux, schnell, wan, cosmos3, llama)
CHECKPOINTS: Mapping[str, Callable[[Path], None]] = {make.__name__: make for make in MAKERS}
OMNI = {"max_text": "10", "max_codes": "45"}
OMNI3 = {"max_text": "10", "max_frames": "12"}
CLIP = {"frames": 5}
WAYS: Mapping[str, Way] = {
    "cosmos3.film": Way(
        checkpoint="cosmos3", params={"steps": "2", "cfg": "3", "max_tokens": "6"}, requests=sized(**CLIP)
    ),
    "cosmos3.tensors": Way(
        checkpoint="cosmos3",
        params={"steps": "2", "cfg": "3"},
        requests=tokens(40, "tokens", "negative", start=8, height=32, width=16, **CLIP),
    ),
    "cosmos3.video": Way(checkpoint="cosmos3", params={"steps": "2", "cfg": "3"}, requests=sized(**CLIP)),
    "csm.speech": Way(
        checkpoint="csm",
        params={"max_frames": "14"},
        requests=prompts("text", ("the sun is out", "a b", "b is the sun a is out")),
    ),
    "csm.tensors": Way(checkpoint="csm", params={"max_frames": "14"}, requests=tokens(70, "tokens", start=3)),
    "flux.image": Way(checkpoint="flux", params={"steps": "3", "text_length": "16"}, requests=sized()),
    "flux.schnell": Way(checkpoint="schnell", params={"steps": "3", "text_length": "16"}, requests=sized()),
    "flux.tensors": Way(
        checkpoint="flux",
        params={"steps": "3"},
        requests=tokens(28, "clip_tokens", "t5_tokens", height=32, width=16),
    ),
    "flux.true_cfg": Way(checkpoint="flux", params={"steps": "3", "text_length": "16"}, requests=sized()),
    "llama.chat": Way(checkpoint="llama", params={"dtype": "float32", "max_tokens": "12"}, requests=prompts()),
    "llama.conversation": Way(
        checkpoint="llama",
        params={"dtype": "float32", "max_tokens": "12"},
        requests=lambda: [{"messages": conversation(*PROMPTS[: i + 1])} for i in range(len(PROMPTS))],
    ),
    "llama.score": Way(checkpoint="llama", params={"dtype": "float32"}, requests=tokens(97, "prompt", "tokens")),
    "llama.tokens": Way(
        checkpoint="llama", params={"dtype": "float32", "max_tokens": "12"}, requests=tokens(97, "tokens")
    ),
    "musicgen.music": Way(
        checkpoint="musicgen",
        params={"max_frames": "60"},
        requests=prompts(texts=("slow drums and a piano", "loud rain", "a piano with rain on the roof")),
    ),
    "musicgen.stereo": Way(
        checkpoint="stereo",
        params={"max_frames": "60"},
        requests=prompts(texts=("slow drums and a piano", "loud rain", "a piano with rain on the roof")),
    ),
    "musicgen.tensors": Way(checkpoint="musicgen", params={"max_frames": "60"}, requests=tokens(64, "tokens", start=1)),
    "null.columns": Way(requests=prompts()),
    "null.frames": Way(requests=prompts()),
    "null.image": Way(requests=prompts()),
    "null.score": Way(requests=tokens(300, "prompt", "tokens")),
    "null.world": Way(
        requests=lambda: [{"prompt": p, "actions": torch.eye(3).repeat(i + 1, 1)} for i, p in enumerate(PROMPTS)]
    ),
    "null.speech": Way(params={"max_tokens": "24"}, requests=prompts()),
    "qwen2_5_omni.speech": Way(
        checkpoint="qwen2_5_omni", params=OMNI, requests=played_and_shown("w5 w9 w77", "w8", "w1 w2 w3 w99 w20 w33")
    ),
    "qwen2_5_omni.stream": Way(
        checkpoint="qwen2_5_omni", params=OMNI, requests=played_and_shown("w5 w9 w77", "w8", "w1 w2 w3 w99 w20 w33")
    ),
    "qwen2_5_omni.tensors": Way(checkpoint="qwen2_5_omni", params=OMNI, requests=heard_and_seen("qwen2_5_omni")),
    "qwen3_omni.speech": Way(
        checkpoint="qwen3_omni", params=OMNI3, requests=played_and_shown("w3 w14 w15 w92 w65", "w8 w7", "w1")
    ),
    "qwen3_omni.tensors": Way(checkpoint="qwen3_omni", params=OMNI3, requests=heard_and_seen("qwen3_omni")),
    "smol_speech.speech": Way(
        params={"max_tokens": "10"},
        requests=prompts(texts=("Say hello.", "Why is the sky blue?")),
        has_trained_weights=True,
    ),
    "wan.tensors": Way(
        checkpoint="wan",
        params={"steps": "2", "cfg": "3"},
        requests=rows(32, "embeds", "negative", height=32, width=16, **CLIP),
    ),
    "wan.video": Way(checkpoint="wan", params={"steps": "2", "text_length": "16"}, requests=sized(**CLIP)),
}
