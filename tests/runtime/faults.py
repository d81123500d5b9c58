"""Experts that go wrong at chosen calls, around real ones."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import torch

import omniflow
from omniflow import Engine, Limits
from omniflow.bind import bind
from omniflow.kv import ExtentLedger
from omniflow.roles import DecoderRows, SequenceState, StepResult, TokenRows
from tests.runtime.program import speech


class FaultyLanguage:
    """Passes everything on to a language model and spoils rows that `is_bad` picks out of the steps."""

    def __init__(self, expert: Any, is_bad: Callable[[TokenRows], bool], fault: str) -> None:
        self.expert = expert
        self.is_bad = is_bad
        self.fault = fault

    @property
    def vocab_size(self) -> int:
        return int(self.expert.vocab_size)

    @property
    def start_ids(self) -> Sequence[int]:
        return tuple(self.expert.start_ids)

    @property
    def arena(self) -> ExtentLedger:
        arena: ExtentLedger = self.expert.arena
        return arena

    def open(self, conditions: Mapping[str, torch.Tensor], *, max_positions: int) -> SequenceState | None:
        state: SequenceState | None = self.expert.open(conditions, max_positions=max_positions)
        return state

    def close(self, sequence: SequenceState) -> None:
        self.expert.close(sequence)

    def step(self, rows: Sequence[TokenRows]) -> list[StepResult]:
        bad = [self.is_bad(row) for row in rows]
        if self.fault == "raise" and any(bad):
            raise RuntimeError("the expert broke")
        results: list[StepResult] = self.expert.step(rows)
        if self.fault == "count" and any(bad):
            return results[:-1]
        return [self._spoil(result) if is_bad else result for result, is_bad in zip(results, bad, strict=True)]

    def _spoil(self, result: StepResult) -> StepResult:
        if result.logits is None:
            return result
        if self.fault == "nan":
            return replace(result, logits=torch.full_like(result.logits, float("nan")))
        if self.fault == "shape":
            return replace(result, logits=result.logits[:-1])
        if self.fault == "missing":
            return replace(result, logits=None)
        return result


class FaultyVocoder:
    """A vocoder whose chunk number `at` of every item is wrong."""

    def __init__(self, expert: Any, fault: str, at: int) -> None:
        self.expert = expert
        self.fault = fault
        self.at = at

    def open(self, *, generator: torch.Generator) -> Any:
        return self.expert.open(generator=generator)

    def decode(self, rows: Sequence[DecoderRows]) -> list[torch.Tensor]:
        bad = [row.state.num_frames >= 32 * self.at for row in rows]
        if self.fault == "raise" and any(bad):
            raise RuntimeError("the vocoder broke")
        results: list[torch.Tensor] = self.expert.decode(rows)
        spoiled = {"nan": lambda x: x * float("nan"), "shape": lambda x: x[None], "raise": lambda x: x}[self.fault]
        return [spoiled(result) if is_bad else result for result, is_bad in zip(results, bad, strict=True)]


def engine_with(name: str, wrap: Callable[[Any], Any], *, limits: Limits | None = None) -> Engine:
    """An engine for the null speech program with one expert wrapped."""
    real = bind(speech()).experts[name]
    return omniflow.load(speech(), experts={name: wrap(real)}, limits=limits)
