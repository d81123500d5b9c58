"""Runs the cases of the reference through the specs, one request per row."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

import omniflow
from omniflow import Engine, Result
from tests.parity.qwen3_omni.reference import Case

SPECS = Path(__file__).parents[3] / "specs" / "qwen3_omni"


@cache
def engine(folder: Path, outputs: tuple[str, ...] | None = None, *, trace: bool = False) -> Engine:
    """An engine for the program that takes tensors."""
    schedule = omniflow.compile(SPECS / "tensors.program.yaml", outputs=outputs, params={"weights": str(folder)})
    return omniflow.load(schedule, trace=trace)


def inputs(case: Case, row: int = 0, voice: str = "Ethan") -> dict[str, Any]:
    """The program's inputs for one row of a case."""
    return {
        "tokens": torch.tensor(case.prompts[row]),
        "sounds": [] if case.features is None else [case.features],
        "pictures": [] if case.pixels is None else [case.pixels],
        "grids": [] if case.grid is None else [torch.tensor(case.grid)],
        "speaker": voice,
    }


def params(case: Case, *, with_speech: bool = True) -> dict[str, Any]:
    """What a case asks of the loops, as request parameters."""
    think: dict[str, Any] = {"stop": [case.eos], "max_tokens": case.max_text}
    if case.sample_text:  # top_k 50 is transformers' own default
        think |= {"temperature": 0.8, "top_p": 0.9, "top_k": 50}
    speak: dict[str, Any] = {"max_tokens": case.max_frames, "repetition_penalty": case.penalty}
    if not case.sample_codes:
        speak |= {"temperature": 0.0, "predict.temperature": 0.0}
    chosen = {f"think.{name}": value for name, value in think.items()}
    return chosen | ({f"talk/speak.{name}": value for name, value in speak.items()} if with_speech else {})


def outputs_of(result: Result | None) -> Mapping[str, Tensor]:
    """Errors: AssertionError with the request's own error."""
    assert result is not None
    assert result.error is None, result.error
    return result.outputs
