"""Noise levels and solvers are those of diffusers' schedulers, bit for bit, and of calculus."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from torch import Tensor

from omniflow.loops.noise_levels import Times, make_times
from omniflow.loops.solvers import make_solver

pytestmark = pytest.mark.hf
STEPS = (1, 2, 3, 5, 28, 50)


def levels_of(times: Times) -> Tensor:
    return torch.tensor([1.0 - t for t in times.at], dtype=torch.float32)


def most(found: Tensor, wanted: Tensor) -> float:
    return float((found - wanted).abs().max())


def told_of(times: Times) -> Tensor:
    return torch.tensor([(1.0 - t) * 1000 for t in times.told], dtype=torch.float32)


@pytest.mark.parametrize("steps", STEPS)
@pytest.mark.parametrize("shift", [1.0, 3.0, 5.0])
def test_trained_levels_are_the_euler_schedulers_own(steps: int, shift: float) -> None:
    from diffusers import FlowMatchEulerDiscreteScheduler

    scheduler = FlowMatchEulerDiscreteScheduler(shift=shift)
    scheduler.set_timesteps(steps)
    times = make_times({"steps": steps, "levels": "trained", "shift": shift, "train_steps": 1000}, length=None)
    assert torch.equal(levels_of(times), scheduler.sigmas)
    assert torch.equal(told_of(times), scheduler.timesteps)


@pytest.mark.parametrize("steps", STEPS)
@pytest.mark.parametrize("curve", ["exponential", "linear"])
@pytest.mark.parametrize("terminal", [0.0, 0.1])
def test_the_shift_by_length_is_the_euler_schedulers(steps: int, curve: str, terminal: float) -> None:
    from diffusers import FlowMatchEulerDiscreteScheduler
    from diffusers.pipelines.flux.pipeline_flux import calculate_shift

    scheduler = FlowMatchEulerDiscreteScheduler(
        use_dynamic_shifting=True, time_shift_type=curve, shift_terminal=terminal or None
    )
    import numpy as np

    scheduler.set_timesteps(sigmas=np.linspace(1.0, 1 / steps, steps), mu=calculate_shift(1200))
    params = {
        "steps": steps, "levels": "unit", "shift_by_length": (256.0, 0.5, 4096.0, 1.15), "shift_curve": curve,
        "terminal": terminal,
    }  # fmt: skip
    if steps == 1 and terminal:
        pytest.skip("a single level cannot be stretched: the original divides by zero")
    times = make_times(params, length=1200)
    assert torch.equal(levels_of(times), scheduler.sigmas)
    assert torch.equal(told_of(times), scheduler.timesteps)


@pytest.mark.parametrize("steps", STEPS)
@pytest.mark.parametrize("order", [1, 2, 3])
def test_unipc_moves_a_latent_as_diffusers_does(steps: int, order: int) -> None:
    from diffusers import UniPCMultistepScheduler

    scheduler = UniPCMultistepScheduler(
        prediction_type="flow_prediction", use_flow_sigmas=True, flow_shift=3.0, solver_order=order
    )
    scheduler.set_timesteps(steps)
    times = make_times(
        {"steps": steps, "levels": "open", "shift": 3.0, "train_steps": 1000, "whole_times": True}, length=None
    )
    assert torch.equal(levels_of(times), scheduler.sigmas)
    assert torch.equal(told_of(times), scheduler.timesteps.float())
    theirs = torch.randn(1, 3, 4, generator=torch.Generator().manual_seed(steps))
    solver = make_solver("unipc", theirs[0].clone(), times, order=order)
    for t in scheduler.timesteps:
        velocity = torch.sin(3 * theirs) - theirs * float(t) / 1000
        theirs = scheduler.step(velocity, t, theirs, return_dict=False)[0]
        mine = solver.probe()
        solver.fold(-(torch.sin(3 * mine) - mine * float(t) / 1000))
        assert most(solver.latent, theirs[0]) <= (1e-6 if order == 3 else 0.0)
    assert solver.step == steps


@pytest.mark.parametrize(("name", "power"), [("euler", 1), ("heun", 2), ("midpoint", 2), ("rk4", 4)])
def test_halving_the_step_shrinks_the_error_by_the_solvers_order(name: str, power: int) -> None:
    def error(steps: int) -> float:
        times = make_times({"steps": steps}, length=None)
        solver = make_solver(name, torch.tensor([1.0], dtype=torch.float64), times, order=2)
        while solver.step < steps:
            solver.fold(solver.probe() * math.cos(solver.time))
        return abs(float(solver.latent) - math.exp(math.sin(1.0)))

    assert error(8) / error(16) == pytest.approx(2**power, rel=0.35)


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"steps": 0}, "at least 1"),
        ({"steps": 4, "levels": "unit", "shift_by_length": (1.0, 1.0, 2.0, 2.0)}, "how long a latent is"),
        ({"steps": 4, "levels": "unit", "shift_by_length": (1.0, 1.0)}, "two different lengths"),
    ],
)
def test_attributes_that_make_no_schedule_are_refused(params: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make_times(params, length=5 if "two" in message else None)
