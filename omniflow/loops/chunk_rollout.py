"""Rolling a world out: chunk after chunk is denoised behind those before it, and leaves as soon as it is done.

A chunk that is done is looked at once more as data, and what its expert keeps of it is the past of the chunks to come
(Self Forcing, arXiv:2506.08009, writes its keys and values that way). Rows of many requests, at different chunks and
times, are one forward.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np
import torch
from torch import Tensor

from omniflow.loops.base import BadResult, Done, Emit, Loop, Memory, Start, Stream, Unit, Wait
from omniflow.loops.checks import NOT_FINITE, are_finite
from omniflow.loops.noise_levels import Times, make_times
from omniflow.loops.solvers import Solver, make_solver
from omniflow.rng import Source
from omniflow.roles import ChunkRow, Prepares, WorldModel
from omniflow.values import is_starred
from omniflow_compiler.schedule import Node

ACTIONS = "actions"
DATA = 1.0  # the time of a chunk without noise


class World(NamedTuple):
    """What a session goes on from: how many chunks there have been, and what was kept of the last of them."""

    num_chunks: int
    past: tuple[Tensor, ...]


@dataclass(slots=True, kw_only=True, eq=False)
class Rolling:
    """One request's world. `chunk` is the one in work, `limit` the number of the chunk that is not made any more.

    given: the conditions as they came; conditions: as the expert takes them.
    """

    given: Mapping[str, Any]
    conditions: Mapping[str, Any]
    actions: Stream | None
    rng: Source
    times: Times
    solver: str
    order: int
    window: int
    limit: int
    keeps_last: bool
    world: World
    chunk: Solver
    action: Tensor | None = None
    reason: str | None = None

    @property
    def is_clean(self) -> bool:
        """Whether the chunk in work is denoised."""
        return self.chunk.step == self.times.num_steps

    def row(self) -> ChunkRow:
        """What the expert is to look at next."""
        latent, time = (self.chunk.latent, DATA) if self.is_clean else (self.chunk.probe(), self.chunk.time)
        world = self.world
        return ChunkRow(latent, time, world.past, world.num_chunks, self.conditions, self.action)


class ChunkRollout(Loop[Rolling]):
    """Ports in: the expert's conditions, and `actions`, a stream whose every row is what is done in one chunk: a chunk

    waits for its own, and the world ends with them. Port out: the chunks, items where the port is starred, otherwise
    one behind the other along the first axis. With `session` a turn goes on where the turn before ended.
    """

    streams = frozenset({ACTIONS})
    optional = frozenset({ACTIONS})
    lanes: ClassVar[int] = 4
    is_asked: ClassVar[bool] = True

    def __init__(self, node: Node, expert: WorldModel) -> None:
        self.expert = expert
        (port,) = node.outputs
        self.port, self.ends_item = port.name, is_starred(port.type)

    def check(self, params: Mapping[str, Any]) -> None:
        """Errors: ValueError for attributes that make no times."""
        try:
            with np.errstate(all="ignore"):
                times = make_times(params, length=None)
        except ArithmeticError:
            times = None
        if times is None or not all(map(math.isfinite, (*times.at, *times.told))):
            raise ValueError("its steps, levels and shifts make noise levels that are no numbers")

    def init(self, start: Start) -> Rolling:
        """Errors: ValueError for attributes that make no times, or conditions that the expert cannot start with."""
        params, given = start.params, start.values
        world = World(0, ()) if start.memory is None else start.memory
        window, times = int(params["window"]), make_times(params, length=None)
        solver, order = str(params.get("solver", "euler")), int(params.get("order", 2))
        return Rolling(
            given=given,
            conditions=self.expert.prepare(given) if isinstance(self.expert, Prepares) else given,
            actions=start.streams.get(ACTIONS),
            rng=start.rng,
            times=times,
            solver=solver,
            order=order,
            window=window,
            limit=world.num_chunks + int(params["chunks"]),
            keeps_last=bool(params.get("session", False)),
            world=World(world.num_chunks, world.past[-window:]),
            chunk=make_solver(solver, self._noise(given, start.rng, world.num_chunks), times, order=order),
        )

    def _noise(self, given: Mapping[str, Any], rng: Source, index: int) -> Tensor:
        """Of a chunk; the same whatever turn of a session it is made in."""
        return self.expert.initial(given, generator=rng.generator(index, "chunk"))

    def next(self, state: Rolling) -> Unit | Wait | Done:
        """A velocity of the chunk in work, or a look at it when it is done."""
        if state.reason is not None:
            return Done(state.reason)
        if state.actions is not None and state.action is None:
            if not state.actions.available():
                return Done("end") if state.actions.has_ended() else Wait(ACTIONS)
            state.action = state.actions.take(1).data[0]
        latent = state.chunk.latent
        key = ("chunk", id(self.expert), state.is_clean, tuple(latent.shape), latent.dtype)
        return Unit("chunk_step", key, state, payload=state.row())

    @torch.inference_mode()
    def execute(self, expert: WorldModel, units: Sequence[Unit]) -> list[Tensor | BadResult]:
        """Velocities of chunks that are being denoised, or what is kept of chunks that are done."""
        rows, is_clean = [unit.payload for unit in units], units[0].state.is_clean
        found = expert.keep(rows) if is_clean else expert.velocity(rows)
        if len(found) != len(rows):
            raise ValueError(f"{len(found)} answers for {len(rows)} rows")
        return [
            _checked(value, row, is_finite=is_finite, is_velocity=not is_clean)
            for value, row, is_finite in zip(found, rows, are_finite(found), strict=True)
        ]

    def advance(self, state: Rolling, result: Tensor) -> list[Emit]:
        """A chunk leaves with its last step, before its expert has looked at it as data."""
        was_clean = state.is_clean
        if was_clean:
            self._keep(state, result)
            return []
        state.chunk.fold(result)
        if not state.is_clean:
            return []
        if state.world.num_chunks + 1 == state.limit and not state.keeps_last:
            state.reason = "bound"
        return [Emit(self.port, state.chunk.latent, ends_item=self.ends_item)]

    def _keep(self, state: Rolling, kept: Tensor) -> None:
        """The chunk becomes past and the next one begins."""
        num_chunks = state.world.num_chunks + 1
        state.world = World(num_chunks, (*state.world.past, kept)[-state.window :])
        state.action = None
        if num_chunks == state.limit:
            state.reason = "bound"
            return
        noise = self._noise(state.given, state.rng, num_chunks)
        state.chunk = make_solver(state.solver, noise, state.times, order=state.order)

    def remember(self, state: Rolling) -> Memory:
        """The world as it is at the end of the turn."""
        return Memory(state.world, sum(kept.numel() * kept.element_size() for kept in state.world.past))


def _checked(value: Tensor, row: ChunkRow, *, is_finite: bool, is_velocity: bool) -> Tensor | BadResult:
    if is_velocity and value.shape != row.latent.shape:
        return BadResult(f"a velocity {list(value.shape)} of a latent {list(row.latent.shape)}")
    return value if is_finite else BadResult(NOT_FINITE)
