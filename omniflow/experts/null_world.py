"""A tiny world: chunks of two frames that drift on from those before them, exact enough that no batch changes a bit."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from omniflow.roles import ChunkRow
from omniflow_compiler.schedule import Cache, Expert

WIDTH = 16
ACTION = 3
CHUNK = (4, 2, 8, 8)  # channels, frames, rows, columns


class NullWorld:
    """Role WorldModel. `condition` f32 [P, 16] and a chunk's action [3] choose a pattern; the past shines through."""

    def __init__(self, *, seed: int) -> None:
        generator = torch.Generator().manual_seed(seed)
        self.patterns = torch.randint(-4, 5, (WIDTH, *CHUNK), generator=generator).float()

    def initial(self, conditions: Mapping[str, Any], *, generator: torch.Generator) -> Tensor:
        del conditions
        return torch.randn(CHUNK, generator=generator)

    def velocity(self, rows: Sequence[ChunkRow]) -> list[Tensor]:
        x = torch.stack([row.latent for row in rows])
        t = torch.tensor([row.time for row in rows])[:, None, None, None, None]
        target = torch.stack([self._wanted(row) + _echo(row.past) for row in rows])
        return list(target - x * (1 + t) * 0.5 + x.roll(1, dims=-1) * 0.125)

    def keep(self, rows: Sequence[ChunkRow]) -> list[Tensor]:
        return [row.latent.roll(1, dims=-1) * 0.5 for row in rows]

    def _wanted(self, row: ChunkRow) -> Tensor:
        """What the words, the action and the chunk's place in time ask for."""
        choice = row.conditions["condition"].sum(0) % 5 - 2
        wanted: Tensor = (choice[:, None, None, None, None] * self.patterns).sum(0) * 2.0**-5
        wanted = wanted + self.patterns[row.number % WIDTH] * 2.0**-4
        for i in range(ACTION if row.action is not None else 0):
            assert row.action is not None
            wanted = wanted + self.patterns[i] * row.action[i] * 2.0**-2
        return wanted


def _echo(past: Sequence[Tensor]) -> Tensor:
    """The chunks before, the last one loudest."""
    echo = torch.zeros(CHUNK)
    for kept in past:
        echo = echo * 0.5 + kept
    return echo


def load_world(spec: Expert, _cache: Cache | None) -> NullWorld:
    """Attribute `seed`."""
    return NullWorld(seed=int(spec.attributes.get("seed", 17)))
