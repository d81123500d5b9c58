"""When a denoising loop looks: times from 0 (noise) to 1 (data), made of the noise levels that published samplers use.

Tables are computed in the precision of the originals and rounded to float32 as they are, so that they are equal bit for
bit: diffusers' FlowMatchEulerDiscreteScheduler and UniPCMultistepScheduler (flow sigmas).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

Levels = np.ndarray[Any, np.dtype[np.floating[Any]]]
ALMOST_ONE = 1e-6  # UniPC takes logarithms of 1 - level, so its first level stays this far below 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Times:
    """`at`: steps + 1 times between which a solver moves. `told`: what the denoiser hears at the start of each step."""

    at: Sequence[float]
    told: Sequence[float]

    @property
    def num_steps(self) -> int:
        """How many steps lead from noise to data."""
        return len(self.told)


def make_times(params: Mapping[str, Any], *, length: int | None) -> Times:
    """The times that a loop's attributes describe. length: of the latent as a sequence, for a shift that depends on it.

    Errors: ValueError for steps below 1, or a shift by length when the length is not known.
    """
    steps = int(params["steps"])
    if steps < 1:
        raise ValueError(f"steps is {steps} and must be at least 1")
    levels = params.get("levels", "even")
    if levels == "even":
        at = even_times(steps, shift=float(params.get("shift", 1.0)), sway=float(params.get("sway", 0.0)))
        return Times(at=at, told=at[:-1])
    table = _table(str(levels), steps, params, length)
    told = table.astype(np.float32)
    if params.get("whole_times"):
        train_steps = int(params["train_steps"])
        told_times = [1.0 - int(level * train_steps) / train_steps for level in table.tolist()]
    else:
        told_times = [1.0 - level for level in told.tolist()]
    return Times(at=[1.0 - level for level in [*told.tolist(), 0.0]], told=told_times)


def even_times(steps: int, *, shift: float = 1.0, sway: float = 0.0) -> list[float]:
    """`steps + 1` times from 0 to 1, in float32 as the originals compute them.

    shift: of the noise level sigma = 1 - t to shift * sigma / (1 + (shift - 1) * sigma) (Stable Diffusion 3); sway:
    t + sway * (cos(pi / 2 * t) - 1 + t) (F5-TTS).
    """
    times = torch.linspace(0, 1, steps + 1)
    if shift != 1.0:
        sigma = 1 - times
        times = 1 - shift * sigma / (1 + (shift - 1) * sigma)
    if sway:
        times = times + sway * (torch.cos(math.pi / 2 * times) - 1 + times)
    values: list[float] = times.tolist()
    return values


def _table(kind: str, steps: int, params: Mapping[str, Any], length: int | None) -> Levels:
    """The noise levels of all steps, the last 0 left out."""
    train_steps, shift = int(params.get("train_steps", 1000)), float(params.get("shift", 1.0))
    line = tuple(float(value) for value in params.get("shift_by_length") or ())
    if kind == "unit":
        levels: Levels = np.linspace(1.0, 1.0 / steps, steps).astype(np.float32)
    elif kind == "trained":
        levels = _trained(steps, train_steps, 1.0 if line else shift)
    elif kind == "open":
        levels = np.linspace(1.0, 1.0 / train_steps, steps + 1)[:-1]
    else:
        raise ValueError(f"there are no noise levels {kind}")
    if line:
        levels = _shifted_by_length(levels, line, length, str(params.get("shift_curve", "exponential")))
    else:
        levels = shift * levels / (1 + (shift - 1) * levels)
    if terminal := float(params.get("terminal", 0.0)):
        levels = 1 - (1 - levels) / ((1 - levels[-1]) / (1 - terminal))
    if kind == "open" and abs(levels[0] - 1) < ALMOST_ONE:
        levels[0] -= ALMOST_ONE
    return levels


def _trained(steps: int, train_steps: int, shift: float) -> Levels:
    """From the largest to the smallest level of training. A static shift has moved both, and moves all once more."""
    trained = np.linspace(1, train_steps, train_steps, dtype=np.float32)[[-1, 0]] / np.float32(train_steps)
    most, least = (float(level) for level in np.float32(shift) * trained / (1 + np.float32(shift - 1) * trained))
    return np.linspace(most * train_steps, least * train_steps, steps) / train_steps


def _shifted_by_length(levels: Levels, line: Sequence[float], length: int | None, curve: str) -> Levels:
    """The shift on the line through (length, shift) and (length, shift), at this length."""
    if length is None:
        raise ValueError("shift_by_length needs a denoiser that tells how long a latent is as a sequence")
    if len(line) != 4 or line[0] == line[2]:
        raise ValueError("shift_by_length is length, shift, length, shift, with two different lengths")
    slope = (line[3] - line[1]) / (line[2] - line[0])
    mu = length * slope + (line[1] - slope * line[0])
    factor = math.exp(mu) if curve == "exponential" else mu
    return factor / (factor + (1 / levels - 1))
