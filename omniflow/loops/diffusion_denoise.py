"""Denoising by a learned flow: one velocity per unit, rows of many requests at different times in one forward.

Solvers are explicit Runge-Kutta tableaus; `rk4` is the 3/8 rule, as in torchdiffeq and Qwen2.5-Omni. Time runs from 0
(noise) to 1 (data).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, NamedTuple

import torch
from torch import Tensor

from omniflow.loops.base import BadResult, Done, Emit, Loop, Start, Unit, Wait
from omniflow.loops.checks import problem_of
from omniflow.roles import Denoiser, SelfGuided
from omniflow_compiler.schedule import Node

CONDITION, UNCONDITIONAL = "condition", "unconditional"


class Tableau(NamedTuple):
    """When each stage looks (`c`), what it adds of earlier stages (`a`), and how the stages make the step (`b`)."""

    c: tuple[float, ...]
    a: tuple[tuple[float, ...], ...]
    b: tuple[float, ...]


SOLVERS: Mapping[str, Tableau] = {
    "euler": Tableau((0.0,), ((),), (1.0,)),
    "heun": Tableau((0.0, 1.0), ((), (1.0,)), (0.5, 0.5)),
    "midpoint": Tableau((0.0, 0.5), ((), (0.5,)), (0.0, 1.0)),
    "rk4": Tableau(
        (0.0, 1 / 3, 2 / 3, 1.0), ((), (1 / 3,), (-1 / 3, 1.0), (1.0, -1.0, 1.0)), (1 / 8, 3 / 8, 3 / 8, 1 / 8)
    ),
}


def time_grid(steps: int, *, shift: float = 1.0, sway: float = 0.0) -> list[float]:
    """`steps + 1` times from 0 to 1.

    shift: of the noise level sigma = 1 - t to shift * sigma / (1 + (shift - 1) * sigma) (Stable Diffusion 3); sway:
    t + sway * (cos(pi / 2 * t) - 1 + t) (F5-TTS).
    """
    times = []
    for i in range(steps + 1):
        sigma = 1.0 - i / steps
        t = 1.0 - shift * sigma / (1.0 + (shift - 1.0) * sigma)
        times.append(t + sway * (math.cos(math.pi / 2 * t) - 1.0 + t))
    return times


@dataclass(slots=True, kw_only=True, eq=False)
class Denoising:
    """One latent between times[step] and times[step + 1]; `stages` are the velocities of this step so far."""

    latent: Tensor
    conditions: Mapping[str, Tensor]
    unconditional: Mapping[str, Tensor] | None
    guidance: float
    times: Sequence[float]
    tableau: Tableau
    step: int = 0
    stages: list[Tensor] = field(default_factory=list)

    @property
    def span(self) -> float:
        return self.times[self.step + 1] - self.times[self.step]

    def probe(self) -> tuple[Tensor, float]:
        """Where and when the next velocity is wanted."""
        stage = len(self.stages)
        return self._moved(self.tableau.a[stage]), self.times[self.step] + self.tableau.c[stage] * self.span

    def fold(self, velocity: Tensor) -> None:
        """Takes the velocity at the probe; the last stage makes the step."""
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


class DiffusionDenoise(Loop[Denoising]):
    """Ports in: the expert's conditions, and `unconditional`, which stands in for `condition` in the guidance row.

    Port out: the latent. With guidance g the velocity is v + g * (v - u); 0 is off.
    """

    optional = frozenset({UNCONDITIONAL})
    lanes: ClassVar[int] = 4

    def __init__(self, node: Node, expert: Denoiser) -> None:
        """Errors: ValueError when guidance is on and nothing gives the unconditional row."""
        self.expert = expert
        self.port = node.outputs[0].name

    def init(self, start: Start) -> Denoising:
        """Errors: ValueError for guidance without an unconditional row, or steps below 1."""
        steps, guidance = int(start.params["steps"]), float(start.params.get("guidance", 0.0))
        if steps < 1:
            raise ValueError(f"steps is {steps} and must be at least 1")
        conditions = {port: value for port, value in start.values.items() if port != UNCONDITIONAL}
        return Denoising(
            latent=self.expert.initial(conditions, generator=start.rng.generator()),
            conditions=conditions,
            unconditional=self._unconditional(conditions, start.values) if guidance else None,
            guidance=guidance,
            times=time_grid(
                steps, shift=float(start.params.get("shift", 1.0)), sway=float(start.params.get("sway", 0.0))
            ),
            tableau=SOLVERS[start.params.get("solver", "euler")],
        )

    def _unconditional(self, conditions: Mapping[str, Tensor], values: Mapping[str, Any]) -> Mapping[str, Tensor]:
        if UNCONDITIONAL in values:
            return {**conditions, CONDITION: values[UNCONDITIONAL]}
        if isinstance(self.expert, SelfGuided):
            return self.expert.unconditional(conditions)
        raise ValueError("guidance is on and nothing feeds `unconditional`")

    def next(self, state: Denoising) -> Unit | Wait | Done:
        """One velocity, for one row or for two with guidance."""
        if state.step == len(state.times) - 1:
            return Done("end")
        key = ("diffusion", id(self.expert), tuple(state.latent.shape), state.latent.dtype)
        return Unit("diffusion_step", key, state, payload=state.probe())

    @torch.inference_mode()
    def execute(self, expert: Denoiser, units: Sequence[Unit]) -> list[Tensor | BadResult]:
        """All rows of all units, guidance rows behind the others, in one call."""
        rows = [(*unit.payload, unit.state.conditions) for unit in units]
        guided = [i for i, unit in enumerate(units) if unit.state.unconditional is not None]
        rows += [(*units[i].payload, units[i].state.unconditional) for i in guided]
        latents, times, conditions = zip(*rows, strict=True)
        velocities = expert.velocity(latents, times, conditions)
        if len(velocities) != len(rows):
            raise ValueError(f"{len(velocities)} velocities for {len(rows)} rows")
        results: list[Tensor | BadResult] = list(velocities[: len(units)])
        for i, without in zip(guided, velocities[len(units) :], strict=True):
            velocity = velocities[i]
            results[i] = velocity + units[i].state.guidance * (velocity - without)
        return [_checked(result, unit) for result, unit in zip(results, units, strict=True)]

    def advance(self, state: Denoising, result: Tensor) -> list[Emit]:
        """Nothing leaves before the end."""
        state.fold(result)
        return []

    def finalize(self, state: Denoising) -> list[Emit]:
        """The latent."""
        return [Emit(self.port, state.latent)]


def _checked(result: Tensor | BadResult, unit: Unit) -> Tensor | BadResult:
    if isinstance(result, BadResult):
        return result
    if result.shape != unit.state.latent.shape:
        return BadResult(f"a velocity {list(result.shape)} of a latent {list(unit.state.latent.shape)}")
    problem = problem_of(result)
    return BadResult(problem) if problem else result
