"""Flows, guidance and tiles."""

from __future__ import annotations

import math
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import torch

import omniflow
from omniflow import Schedule, State
from omniflow.experts.null_image import NullImageDecoder
from omniflow.loops.base import Start
from omniflow.loops.noise_levels import Times, even_times
from omniflow.loops.solvers import TABLEAUS, make_solver
from omniflow.loops.vae_tile import VaeTile
from omniflow.rng import Source
from tests.runtime.program import drain
from tests.schedules import node

PROGRAM = Path(__file__).parents[2] / "specs" / "null" / "image.program.yaml"
REQUESTS = (
    ("A cat", "", 4, "heun"),
    ("rain on grass", "sun", 7, "rk4"),
    ("stars", "", 3, "euler"),
    ("", "x", 5, "midpoint"),
)


@cache
def program() -> Schedule:
    return omniflow.compile(PROGRAM)


def submit(running: Any, request: tuple[str, str, int, str], seed: int) -> int:
    prompt, negative, steps, solver = request
    params = {"paint.steps": steps, "paint.solver": solver}
    number: int = running.submit({"prompt": prompt, "negative": negative}, seed=seed, params=params)
    return number


@pytest.mark.parametrize("solver", sorted(TABLEAUS))
def test_a_solver_has_its_order(solver: str) -> None:
    """Halving the step of dx/dt = x + t divides the error by 2 to the order."""

    def error(steps: int) -> float:
        at = [i / steps for i in range(steps + 1)]
        state = make_solver(solver, torch.tensor([1.0], dtype=torch.float64), Times(at=at, told=at[:-1]), order=2)
        for _ in range(steps * len(TABLEAUS[solver].b)):
            x, t = state.probe(), state.time
            state.fold(x + t)
        return abs(float(state.latent) - (2 * math.e - 2))

    order = {"euler": 1, "heun": 2, "midpoint": 2, "rk4": 4}[solver]
    assert math.log2(error(4) / error(8)) == pytest.approx(order, abs=0.4)


def test_the_time_grid_is_shifted_and_swayed() -> None:
    assert even_times(4) == pytest.approx([0, 0.25, 0.5, 0.75, 1])
    shifted = even_times(4, shift=3.0)
    assert shifted[0] == 0
    assert shifted[-1] == pytest.approx(1)
    assert 1 - shifted[2] == pytest.approx(3 * 0.5 / (1 + 2 * 0.5))
    swayed = even_times(10, sway=-1.0)
    assert swayed == pytest.approx([1 - math.cos(math.pi / 2 * i / 10) for i in range(11)], rel=1e-4)


def test_images_at_other_steps_and_solvers_batch_and_stay_what_they_are_alone() -> None:
    alone = []
    for seed, request in enumerate(REQUESTS):
        running = omniflow.load(program())
        number = submit(running, request, seed)
        drain(running)
        alone.append(running.result(number))
    running = omniflow.load(program(), trace=True)
    numbers = [submit(running, request, seed) for seed, request in enumerate(REQUESTS)]
    drain(running)
    for number, want in zip(numbers, alone, strict=True):
        result = running.result(number)
        assert result is not None
        assert want is not None
        assert result.state is State.DONE, result.error
        assert torch.equal(result.outputs["image"], want.outputs["image"])
    assert running.trace is not None
    assert max(unit.width for unit in running.trace.units if unit.node == "paint") == len(REQUESTS)
    assert running.live == 0


def test_guidance_and_the_negative_prompt_matter() -> None:
    running = omniflow.load(program())

    def image(negative: str, guidance: float) -> torch.Tensor:
        result = running.run({"prompt": "A cat", "negative": negative}, params={"paint.guidance": guidance})
        assert result.state is State.DONE, result.error
        picture: torch.Tensor = result.outputs["image"]
        return picture

    assert not torch.equal(image("", 3.0), image("rain", 3.0))
    assert torch.equal(image("", 0.0), image("rain", 0.0))
    assert not torch.equal(image("", 3.0), image("", 0.0))


@pytest.mark.parametrize(("tile", "overlap"), [(0, 0), (4, 0), (4, 1), (5, 2), (3, 1)])
def test_tiles_blend_to_the_whole(tile: int, overlap: int) -> None:
    latent = torch.randn(4, 9, 13, generator=torch.Generator().manual_seed(1))
    expert = NullImageDecoder()
    spec = node("show", "loop.vae_tile", inputs={"latents": "latent[4, H, W]"}, outputs={"image": "image[H, W, 3]"})
    loop = VaeTile(spec, expert)
    start = Start(
        values={"latents": latent}, streams={}, params={"tile": tile, "overlap": overlap}, rng=Source(0, "show", 0),
        wanted=frozenset({"image"}),
    )  # fmt: skip
    state, units = loop.init(start), 0
    while hasattr(unit := loop.next(state), "payload"):
        loop.advance(state, loop.execute(expert, [unit])[0])
        units += 1
    (emit,) = loop.finalize(state)
    assert torch.allclose(emit.data, expert.decode_tiles([latent])[0], atol=1e-6)
    assert units == (
        1 if not tile else math.ceil((9 - overlap) / (tile - overlap)) * math.ceil((13 - overlap) / (tile - overlap))
    )
