"""Scoring given tokens: how probable each is behind what comes before it, without decoding anything."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from omniflow.loops.ar_decode import POOL
from omniflow.loops.ar_step import forward
from omniflow.loops.base import BadResult, Done, Emit, Loop, Start, Unit, Wait
from omniflow.loops.checks import NOT_FINITE, are_finite
from omniflow.pool import Pool
from omniflow.roles import Autoregressor, SequenceState, StepResult, TokenRows

POSITIONS = 128  # in one unit at most: each has a row of logits


@dataclass(slots=True, kw_only=True, eq=False)
class Scoring:
    """One sequence: ids [P + T], the prompt's and those to be scored; the last one is read by nobody."""

    ids: Tensor
    num_prompt: int
    num_fed: int = 0
    sequence: SequenceState | None = None

    @property
    def num_left(self) -> int:
        """Positions that are still to be fed."""
        return len(self.ids) - 1 - self.num_fed if len(self.ids) > self.num_prompt else 0


class Score(Loop[Scoring]):
    """Ports in: `prompt` (ids [P], one at least) and `tokens` (ids [T]). Port out: `logprobs` (float32 [T]), the

    log-probability of each token under the expert's own logits, whatever sampling chose it: log_softmax over the whole
    vocabulary at temperature 1.
    """

    lanes: ClassVar[int] = 16

    def __init__(self, expert: Autoregressor, *, pool: Pool) -> None:
        self.pool = pool
        self.vocab_size = expert.vocab_size
        self.key = ("score", id(expert))

    def init(self, start: Start) -> Scoring:
        """Errors: ValueError for an empty prompt and for ids outside the vocabulary."""
        prompt, tokens = start.values["prompt"], start.values["tokens"]
        if not len(prompt):
            raise ValueError("the prompt is empty: nothing says how probable the first token is")
        ids = torch.cat([prompt, tokens])
        if not 0 <= int(ids.min()) <= int(ids.max()) < self.vocab_size:
            raise ValueError(f"there is a token outside the vocabulary of {self.vocab_size}")
        return Scoring(ids=ids, num_prompt=len(prompt))

    def next(self, state: Scoring) -> Unit | Wait | Done:
        """As many positions as a unit may have, until the last token but one is fed."""
        if not state.num_left:
            return Done("end")
        if state.sequence is None:
            state.sequence = self.pool.open({}, max_positions=len(state.ids) - 1)
            if state.sequence is None:
                return Wait(POOL)
        if not self.pool.is_here(state.sequence) and not self.pool.bring_back(state.sequence):
            return Wait(POOL)
        return Unit("logprob_batch", self.key, state, size=min(state.num_left, POSITIONS), divisible=True)

    def execute(self, expert: Autoregressor, units: Sequence[Unit]) -> list[Tensor | BadResult]:
        """One step of the expert over all sequences; the log-probabilities [n] of the ids behind those fed."""
        results = forward(expert, [_row(unit) for unit in units])
        found = [_behind(unit, result) for unit, result in zip(units, results, strict=True)]
        return [
            x if ok else BadResult(NOT_FINITE, is_finite=False) for x, ok in zip(found, are_finite(found), strict=True)
        ]

    def advance(self, state: Scoring, result: Tensor) -> list[Emit]:
        """What was found of the tokens leaves at once."""
        first = state.num_fed + 1  # the id that the first of them is of
        state.num_fed += len(result)
        scored = result[max(state.num_prompt - first, 0) :]
        return [Emit("logprobs", scored)] if len(scored) else []

    def takes_room(self, state: Scoring) -> bool:
        """Every unit needs it."""
        del state
        return True

    def set_aside(self, state: Scoring) -> bool:
        """What the sequence has cached."""
        return state.sequence is None or self.pool.set_aside(state.sequence)

    def release(self, state: Scoring) -> None:
        """The sequence goes back."""
        if state.sequence is not None:
            self.pool.close(state.sequence)
            state.sequence = None


def _row(unit: Unit) -> TokenRows:
    state: Scoring = unit.state
    assert state.sequence is not None
    ids = state.ids[state.num_fed : state.num_fed + unit.grant]
    return TokenRows(sequence=state.sequence, ids=ids, wants_logits=False, wants_every=True)


@torch.inference_mode()
def _behind(unit: Unit, result: StepResult) -> Tensor:
    state: Scoring = unit.state
    assert result.every is not None
    ids = state.ids[state.num_fed + 1 : state.num_fed + 1 + unit.grant].to(result.every.device)
    return result.every.float().log_softmax(-1).gather(1, ids[:, None])[:, 0].cpu()
