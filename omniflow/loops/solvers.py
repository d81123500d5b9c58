"""Solvers of a learned flow: each moves one latent from noise to data and says where it wants the next velocity.

Times run from 0 (noise) to 1 (data); a velocity is the latent's change per unit of time. `rk4` is the 3/8 rule, as in
torchdiffeq and Qwen2.5-Omni. UniPC is by Zhao et al. 2023 (arXiv:2302.04867), in the form B(h) = exp(h) - 1 over the
predicted data, which diffusers' UniPCMultistepScheduler calls `bh2`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple, Protocol

import numpy as np
import torch
from torch import Tensor

from omniflow.loops.noise_levels import Times


class Solver(Protocol):
    """One latent on its way. `latent` is where it is at the start of step `step`."""

    latent: Tensor
    step: int

    @property
    def time(self) -> float:
        """What the denoiser is told at the next probe."""

    def probe(self) -> Tensor:
        """Where the next velocity is wanted."""

    def fold(self, velocity: Tensor) -> None:
        """Takes the velocity at the probe."""


class Tableau(NamedTuple):
    """When each stage looks (`c`), what it adds of earlier stages (`a`), and how the stages make the step (`b`)."""

    c: tuple[float, ...]
    a: tuple[tuple[float, ...], ...]
    b: tuple[float, ...]


TABLEAUS: Mapping[str, Tableau] = {
    "euler": Tableau((0.0,), ((),), (1.0,)),
    "heun": Tableau((0.0, 1.0), ((), (1.0,)), (0.5, 0.5)),
    "midpoint": Tableau((0.0, 0.5), ((), (0.5,)), (0.0, 1.0)),
    "rk4": Tableau(
        (0.0, 1 / 3, 2 / 3, 1.0), ((), (1 / 3,), (-1 / 3, 1.0), (1.0, -1.0, 1.0)), (1 / 8, 3 / 8, 3 / 8, 1 / 8)
    ),
}


def make_solver(name: str, latent: Tensor, times: Times, *, order: int) -> Solver:
    """The solver of that name at the first time. Errors: ValueError for a name that is not there."""
    if name == "unipc":
        return UniPC(latent, times, order=order)
    if name not in TABLEAUS:
        raise ValueError(f"there is no solver {name}; there are {', '.join([*TABLEAUS, 'unipc'])}")
    return RungeKutta(latent, times, TABLEAUS[name])


class RungeKutta:
    """Explicit Runge-Kutta: as many velocities per step as the tableau has stages.

    Times are float32 as in the originals: denoisers multiply them by a thousand, so their last bit can be seen.
    """

    __slots__ = ("latent", "stages", "step", "tableau", "times")

    def __init__(self, latent: Tensor, times: Times, tableau: Tableau) -> None:
        self.latent = latent
        self.step = 0
        self.times = times
        self.tableau = tableau
        self.stages: list[Tensor] = []

    @property
    def span(self) -> float:
        """The time that this step covers."""
        return float(np.float32(self.times.at[self.step + 1] - self.times.at[self.step]))

    @property
    def time(self) -> float:
        """The step's own time for its first stage, the next one's for a stage at its end."""
        start, share = self.times.told[self.step], self.tableau.c[len(self.stages)]
        if share in (0.0, 1.0):
            return start if share == 0.0 else self.times.at[self.step + 1]
        return float(np.float32(start + float(np.float32(self.span) * np.float32(share))))

    def probe(self) -> Tensor:
        """The latent moved by the stages so far."""
        return self._moved(self.tableau.a[len(self.stages)])

    def fold(self, velocity: Tensor) -> None:
        """The last stage makes the step."""
        self.stages.append(velocity)
        if len(self.stages) == len(self.tableau.b):
            self.latent = self._moved(self.tableau.b)
            self.stages.clear()
            self.step += 1

    def _moved(self, weights: Sequence[float]) -> Tensor:
        at = self.latent
        for weight, velocity in zip(weights, self.stages, strict=True):
            if weight:
                at = at + (weight * self.span) * velocity
        return at


class UniPC:
    """Predicts with what the data looked like at earlier steps, and corrects each step when the next one has been seen.

    Noise levels and their logarithms are float32 scalars, as in the original, so that results are equal bit for bit.
    """

    __slots__ = ("before", "data", "latent", "levels", "order", "step", "times", "used")

    def __init__(self, latent: Tensor, times: Times, *, order: int) -> None:
        self.latent = latent
        self.step = 0
        self.times = times
        self.order = order
        self.levels = torch.tensor([1.0 - t for t in times.at], dtype=torch.float32)
        self.data: list[Tensor] = []  # predicted data of the last `order` steps, the newest last
        self.before: Tensor | None = None  # the latent that the last prediction started from
        self.used = 1  # order of the last prediction

    @property
    def time(self) -> float:
        """The step's time."""
        return self.times.told[self.step]

    def probe(self) -> Tensor:
        """The latent itself."""
        return self.latent

    def fold(self, velocity: Tensor) -> None:
        """Corrects where the last step led to, then predicts the next."""
        level = self.levels[self.step].to(self.latent.device)
        data = self.latent + level * velocity
        latent = self.latent
        if self.before is not None:
            latent = self._move(self.before, self.step - 1, self.used, newest=data)
        self.data = [*self.data, data][-self.order :]
        self.used = min(self.order, self.times.num_steps - self.step, self.step + 1)
        self.before = latent
        self.latent = self._move(latent, self.step, self.used, newest=None)
        self.step += 1

    def _move(self, start: Tensor, step: int, order: int, *, newest: Tensor | None) -> Tensor:
        """From the level of `step` to the next. newest: the data seen there already, for the correction."""
        alpha, sigma, beyond = self._at(step + 1)
        _, sigma_before, here = self._at(step)
        h = beyond - here
        current = self.data[-1]
        ratios, slopes = [], []
        for i in range(1, order):
            ratio = (self._at(step - i)[2] - here) / h
            ratios.append(ratio)
            slopes.append((self.data[-(i + 1)] - current) / ratio)
        grown = torch.expm1(-h)
        weights = _weights([*ratios, torch.ones_like(h)], h, grown, corrects=newest is not None)
        moved = sigma / sigma_before * start - alpha * grown * current
        bend = sum((weight * slope for weight, slope in zip(weights, slopes, strict=False)), torch.zeros(()))
        if newest is not None:
            bend = bend + weights[-1] * (newest - current)
        return moved - alpha * grown * bend if order > 1 or newest is not None else moved

    def _at(self, step: int) -> tuple[Tensor, Tensor, Tensor]:
        """Share of data, share of noise, and the logarithm of their ratio."""
        sigma = self.levels[step].to(self.latent.device)
        alpha = 1 - sigma
        return alpha, sigma, torch.log(alpha) - torch.log(sigma)


def _weights(ratios: Sequence[Tensor], h: Tensor, grown: Tensor, *, corrects: bool) -> list[Tensor]:
    """How much each slope counts: one less than `ratios` to predict, all of them to correct."""
    half = torch.full_like(h, 0.5)
    if len(ratios) == (1 if corrects else 2):
        return [half]
    if len(ratios) == 1:
        return []
    rows, wanted = [], []
    step, factorial = -h, 1
    phi = grown / step - 1
    at = torch.stack(list(ratios))
    for i in range(1, len(ratios) + 1):
        rows.append(at.pow(i - 1))
        wanted.append(phi * factorial / grown)
        factorial *= i + 1
        phi = phi / step - 1 / factorial
    matrix, right = torch.stack(rows), torch.stack(wanted)
    if not corrects:
        matrix, right = matrix[:-1, :-1], right[:-1]
    return list(torch.linalg.solve(matrix, right))
