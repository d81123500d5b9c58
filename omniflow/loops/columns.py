"""Steps that choose a code of every codebook at once, each codebook some steps behind: MusicGen's delay pattern.

A step's codes are a column. Frame f takes its code of codebook k from column f + delays[k], so a frame is whole when
the column of its last codebook is there (Copet et al. 2023, "Simple and Controllable Music Generation", section 2.2).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from omniflow.roles import Autoregressor
from omniflow_compiler.codebooks import OF_SINGLE_IDS

NEUTRAL = {"repetition_penalty": 1.0}


@dataclass(slots=True, kw_only=True, eq=False)
class Columns:
    """The columns of one sequence. filler: the ids where a codebook has not begun or has ended."""

    delays: tuple[int, ...]
    filler: tuple[int, ...]
    chosen: list[list[int]] = field(default_factory=list)
    logprobs: list[list[float]] = field(default_factory=list)  # of each column, where they are wanted

    @property
    def lag(self) -> int:
        """Columns that a frame waits for after its first code."""
        return max(self.delays)

    @property
    def num_frames(self) -> int:
        """Frames that are whole."""
        return max(0, len(self.chosen) - self.lag)

    def take(self, column: Sequence[int], num_frames: int) -> tuple[Tensor, Tensor | None]:
        """Adds a column of `num_frames` frames' columns: what is fed next, and the frame that is whole now, [1, K]."""
        at = len(self.chosen)
        self.chosen.append(list(column))
        fed = [
            code if 0 <= at - delay < num_frames else filler
            for code, delay, filler in zip(column, self.delays, self.filler, strict=True)
        ]
        is_whole = at >= self.lag
        return torch.tensor([fed]), torch.tensor([self._frame(self.chosen, at - self.lag)]) if is_whole else None

    def behaviour(self) -> Mapping[str, Any]:
        """The frames and the log-probabilities of their codes, as far as they are known."""
        frames = range(self.num_frames)
        return {
            "codes": [self._frame(self.chosen, frame) for frame in frames],
            "logprobs": [self._frame(self.logprobs, frame) for frame in frames] if self.logprobs else [],
        }

    def _frame(self, columns: Sequence[Sequence[Any]], frame: int) -> list[Any]:
        return [columns[frame + delay][k] for k, delay in enumerate(self.delays)]


def check_columns(expert: Autoregressor, params: Mapping[str, Any]) -> None:
    """Errors: ValueError for another number of codebooks, or, with delays, for attributes of single ids."""
    delays, count = params.get("delays", ()), len(expert.start_ids)
    if not delays:
        return
    if len(delays) != count:
        raise ValueError(f"delays has {len(delays)} numbers, and its expert chooses {count} codes a step")
    odd = [name for name in OF_SINGLE_IDS if params.get(name) and params[name] != NEUTRAL.get(name)]
    if odd:
        raise ValueError(f"{odd[0]} is of single ids, and with delays every step chooses {count} codes")


def make_columns(expert: Autoregressor, params: Mapping[str, Any]) -> Columns | None:
    """None without delays."""
    delays = params.get("delays", ())
    return Columns(delays=tuple(delays), filler=tuple(expert.start_ids)) if delays else None
