"""Denoising by a learned flow: one velocity per unit, rows of many requests at different times in one forward.

How the flow is followed is data: `noise_levels.py` makes the times, `solvers.py` moves the latents.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np
import torch
from torch import Tensor

from omniflow.lease import Lease
from omniflow.loops.base import BadResult, Done, Emit, Loop, Start, Unit, Wait
from omniflow.loops.checks import NOT_FINITE, are_finite
from omniflow.loops.noise_levels import make_times
from omniflow.loops.solvers import Solver, make_solver
from omniflow.roles import AnyLength, Denoiser, Latents, Prepares, SelfGuided, Sequential
from omniflow_compiler.schedule import Node

CONDITION, UNCONDITIONAL = "condition", "unconditional"


class Guidance(NamedTuple):
    """v + weight * (v - u), or u + scale * (v - u) as published pipelines write it; the two differ in rounding."""

    weight: float
    scale: float

    @property
    def is_on(self) -> bool:
        """Whether there is a second row."""
        return self.weight != 0.0 or self.scale != 1.0

    def combine(self, velocity: Tensor, without: Tensor) -> Tensor:
        """The guided velocity of a conditional and an unconditional one."""
        if self.scale != 1.0:
            return without + self.scale * (velocity - without)
        return velocity + self.weight * (velocity - without)


@dataclass(slots=True, kw_only=True, eq=False)
class Denoising:
    """One request's latents by output port, all at the same step. `is_joint`: the expert takes them as a mapping."""

    solvers: Mapping[str, Solver]
    is_joint: bool
    conditions: Mapping[str, Any]
    unconditional: Mapping[str, Any] | None
    guidance: Guidance
    num_steps: int

    @property
    def lead(self) -> Solver:
        """The one whose clock all share."""
        return next(iter(self.solvers.values()))

    def probe(self) -> tuple[Latents, float]:
        """Where and when the next velocities are wanted."""
        probes = {port: solver.probe() for port, solver in self.solvers.items()}
        return probes if self.is_joint else next(iter(probes.values())), self.lead.time


class DiffusionDenoise(Loop[Denoising]):
    """Ports in: the expert's conditions; `unconditional` stands in for `condition` in the guidance row, and

    `unconditional_x` for `x`. Ports out: the latents that the expert starts with. A denoiser of one latent takes and
    gives tensors, one of several latents mappings by port. A cache (`kv`) reaches the expert as its own sequence.
    """

    lanes: ClassVar[int] = 4
    is_asked: ClassVar[bool] = True

    def __init__(self, node: Node, expert: Denoiser) -> None:
        self.expert = expert
        self.ports = tuple(port.name for port in node.outputs)

    def check(self, params: Mapping[str, Any]) -> None:
        """Errors: ValueError for attributes that make no times."""
        try:
            with np.errstate(all="ignore"):
                times = make_times(params, length=1 if isinstance(self.expert, Sequential) else None)
        except ArithmeticError:
            times = None
        if times is None or not all(map(math.isfinite, (*times.at, *times.told))):
            raise ValueError("its steps, levels and shifts make noise levels that are no numbers")

    def init(self, start: Start) -> Denoising:
        """Errors: ValueError for guidance without an unconditional row, or attributes that make no schedule."""
        values = {port: value.sequence if isinstance(value, Lease) else value for port, value in start.values.items()}
        own = {port: value for port, value in values.items() if not port.startswith(UNCONDITIONAL)}
        params = start.params
        guidance = Guidance(float(params.get("guidance", 0.0)), float(params.get("cfg", 1.0)))
        unconditional = self._unconditional(own, values) if guidance.is_on else None
        first = self.expert.initial(own, generator=start.rng.generator())
        latents = {self.ports[0]: first} if isinstance(first, Tensor) else first
        length = self.expert.sequence_length(first) if isinstance(self.expert, Sequential) else None
        times = make_times(params, length=length)
        solver, order = str(params.get("solver", "euler")), int(params.get("order", 2))
        return Denoising(
            solvers={port: make_solver(solver, latent, times, order=order) for port, latent in latents.items()},
            is_joint=not isinstance(first, Tensor),
            conditions=self._prepared(own),
            unconditional=None if unconditional is None else self._prepared(unconditional),
            guidance=guidance,
            num_steps=times.num_steps,
        )

    def _prepared(self, conditions: Mapping[str, Any]) -> Mapping[str, Any]:
        return self.expert.prepare(conditions) if isinstance(self.expert, Prepares) else conditions

    def _unconditional(self, own: Mapping[str, Any], values: Mapping[str, Any]) -> Mapping[str, Any]:
        if UNCONDITIONAL in values:
            others = {port.removeprefix(f"{UNCONDITIONAL}_"): v for port, v in values.items() if port not in own}
            others[CONDITION] = others.pop(UNCONDITIONAL)
            return {**own, **others}
        if isinstance(self.expert, SelfGuided):
            return self.expert.unconditional(own)
        raise ValueError("guidance is on and nothing feeds `unconditional`")

    def next(self, state: Denoising) -> Unit | Wait | Done:
        """One velocity, for one row or for two with guidance."""
        if state.lead.step == state.num_steps:
            return Done("end")
        shapes = tuple((tuple(solver.latent.shape), solver.latent.dtype) for solver in state.solvers.values())
        key = ("diffusion", id(self.expert), tuple(state.solvers), () if isinstance(self.expert, AnyLength) else shapes)
        return Unit("diffusion_step", key, state, payload=state.probe())

    @torch.inference_mode()
    def execute(self, expert: Denoiser, units: Sequence[Unit]) -> list[Mapping[str, Tensor] | BadResult]:
        """All rows of all units, guidance rows behind the others, in one call."""
        rows = [(*unit.payload, unit.state.conditions) for unit in units]
        guided = [i for i, unit in enumerate(units) if unit.state.unconditional is not None]
        rows += [(*units[i].payload, units[i].state.unconditional) for i in guided]
        velocities = _velocities(expert, rows, next(iter(units[0].state.solvers)))
        results = velocities[: len(units)]
        for i, without in zip(guided, velocities[len(units) :], strict=True):
            combine = units[i].state.guidance.combine
            results[i] = {port: combine(velocity, without[port]) for port, velocity in results[i].items()}
        finite = iter(are_finite([value for result in results for value in result.values()]))
        flags = [[next(finite) for _ in result] for result in results]
        return [_checked(*row) for row in zip(results, units, map(all, flags), strict=True)]

    def advance(self, state: Denoising, result: Mapping[str, Tensor]) -> list[Emit]:
        """Nothing leaves before the end."""
        for port, solver in state.solvers.items():
            solver.fold(result[port])
        return []

    def finalize(self, state: Denoising) -> list[Emit]:
        """The latents."""
        return [Emit(port, solver.latent) for port, solver in state.solvers.items()]


def _velocities(expert: Denoiser, rows: Sequence[tuple[Latents, float, Any]], port: str) -> list[Mapping[str, Tensor]]:
    """One forward; answers by port, those of a single latent by its own."""
    probes, times, conditions = zip(*rows, strict=True)
    found = expert.velocity(probes, times, conditions)
    if len(found) != len(rows):
        raise ValueError(f"{len(found)} velocities for {len(rows)} rows")
    return [{port: velocity} if isinstance(velocity, Tensor) else velocity for velocity in found]


def _checked(result: Mapping[str, Tensor], unit: Unit, is_finite: bool) -> Mapping[str, Tensor] | BadResult:
    for port, solver in unit.state.solvers.items():
        velocity = result[port]
        if velocity.shape != solver.latent.shape:
            return BadResult(f"a velocity {list(velocity.shape)} of a latent {list(solver.latent.shape)}")
    return result if is_finite else BadResult(NOT_FINITE, is_finite=False)
