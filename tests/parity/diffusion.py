"""Tiny diffusers folders with random weights, and what runs of diffusers and of OmniFlow did step by step."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from tokenizers import Tokenizer, models, pre_tokenizers, processors
from torch import Tensor
from transformers import PreTrainedTokenizerFast

import omniflow
from omniflow import Engine
from tests.parity.references import watching

SPECS = Path(__file__).parents[2] / "specs"
WORDS = (
    "a an the cat dog robot red blue green runs sits jumps on under over mat moon river with and hat photo of".split()
)
PROMPTS = ("photo of a red robot cat with a hat", "the dog sits under the moon", "a river", "blue mat and green hat")


def word_tokenizer(*, begins: bool, most: int) -> PreTrainedTokenizerFast:
    """Whole words; `begins` puts a mark before the text as CLIP does."""
    vocabulary = {word: i for i, word in enumerate(["<pad>", "<bos>", "<eos>", "<unk>", *WORDS])}
    tokenizer = Tokenizer(models.WordLevel(vocabulary, unk_token="<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer.post_processor = processors.TemplateProcessing(
        single="<bos> $A <eos>" if begins else "$A <eos>", special_tokens=[("<bos>", 1), ("<eos>", 2)]
    )
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        pad_token="<pad>",
        bos_token="<bos>",
        eos_token="<eos>",
        unk_token="<unk>",
        model_max_length=most,
    )


@dataclass(kw_only=True)
class Steps:
    """What a denoiser was asked and answered, call by call, and what the text encoders read and wrote."""

    latents: list[Tensor] = field(default_factory=list)
    times: list[float] = field(default_factory=list)
    velocities: list[Tensor] = field(default_factory=list)
    tokens: list[Tensor] = field(default_factory=list)
    embeds: list[Tensor] = field(default_factory=list)


def ours(engine: Engine, inputs: Mapping[str, Any], *, seed: int, denoiser: str = "transformer") -> tuple[Any, Steps]:
    """One request alone, its denoiser watched. Latents are what it was given, step after step."""
    steps = Steps()

    def see(given: Mapping[str, Any], answer: Sequence[Any]) -> None:
        steps.latents.append(given["0"][0])
        steps.times.append(given["1"][0])
        steps.velocities.append(answer[0])

    with watching(engine.bound.experts[denoiser], "velocity", see):
        result = engine.run(inputs, seed=seed, rng="torch")
    assert result.state == "done", result.error
    return result, steps


def program(folder: Path, name: str, **params: Any) -> omniflow.Schedule:
    """A program of `specs/` over a checkpoint; `name` is `flux/image`."""
    values = {"weights": str(folder), **{key: str(value) for key, value in params.items()}}
    return omniflow.compile(SPECS / f"{name}.program.yaml", params=values)


def most_different(found: Tensor, wanted: Tensor) -> float:
    """The largest absolute difference of two tensors of one shape."""
    assert found.shape == wanted.shape, f"{list(found.shape)} is not {list(wanted.shape)}"
    return float((found.detach().float() - wanted.detach().float()).abs().max())


def drain(engine: Engine) -> None:
    """Steps until every request has ended."""
    for _ in range(100_000):
        if engine.is_idle:
            return
        engine.step()
    raise AssertionError("the engine does not come to an end")


def torch_seed(seed: int) -> torch.Generator:
    """The generator that a published pipeline is called with."""
    return torch.Generator().manual_seed(seed)
