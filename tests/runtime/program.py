"""The null speech program, compiled once, and what tests read from its runs."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import torch

import omniflow
from omniflow import Engine, Limits, Schedule

PROGRAM = Path(__file__).parents[2] / "specs" / "null" / "speech.program.yaml"
PROMPTS = ("Why is the sky blue?", "Tell me of the rain.", "And the old tree near my mat, what of it?", "Hm", "Stars!")


@cache
def speech(outputs: tuple[str, ...] | None = None) -> Schedule:
    return omniflow.compile(PROGRAM, outputs=outputs)


def engine(*, limits: Limits | None = None, profile: str = "serve", trace: bool = False) -> Engine:
    return omniflow.load(speech(), limits=limits, profile=profile, trace=trace)


def drain(running: Engine, *, steps: int = 100_000) -> None:
    for _ in range(steps):
        if running.is_idle:
            return
        running.step()
    raise AssertionError("the engine does not come to an end")


def outputs_of(result: Any) -> tuple[str, torch.Tensor]:
    assert result.state == "done", result.error
    return result.outputs["text"], result.outputs["audio"]


@cache
def alone(prompt: str, seed: int = 0) -> tuple[str, torch.Tensor]:
    """What a prompt gives when nothing else runs."""
    return outputs_of(engine().run({"prompt": prompt}, seed=seed))


def assert_same(result: Any, prompt: str, seed: int = 0) -> None:
    """Null experts are exact: every bit must agree."""
    text, audio = outputs_of(result)
    want_text, want_audio = alone(prompt, seed)
    assert text == want_text
    assert torch.equal(audio, want_audio)
