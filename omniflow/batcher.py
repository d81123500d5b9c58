"""Forms batches: ready units of all requests and nodes, grouped by key, deepest group first, within budgets."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable
from dataclasses import dataclass

from omniflow.loops.base import Unit


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """What one step and one engine may hold.

    width: most units in a batch; step_tokens: most positions in an autoregressive batch, of which at least
    `min_prefill` are left to prompts; running: most requests in work at once; queued: most requests waiting.
    batch_invariant: every unit is computed alone, so that its bits never depend on its neighbours.
    """

    width: int = 64
    step_tokens: int = 64
    min_prefill: int = 16
    running: int = 256
    queued: int = 100_000
    batch_invariant: bool = False


class Group:
    """Ready units of one key in order of arrival; `depth` is that of its deepest node."""

    __slots__ = ("depth", "key", "units")

    def __init__(self, key: Hashable) -> None:
        self.key = key
        self.depth = -1.0
        self.units: OrderedDict[int, Unit] = OrderedDict()  # by identity


class Batcher:
    """Holds the ready units. `put`, `discard` and `take` cost the same however many wait."""

    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        self.groups: dict[Hashable, Group] = {}
        self.num_ready = 0

    def put(self, unit: Unit, depth: float) -> None:
        """A unit became ready."""
        group = self.groups.get(unit.key)
        if group is None:
            group = self.groups[unit.key] = Group(unit.key)
        group.units[id(unit)] = unit
        self.num_ready += 1
        if depth > group.depth:
            group.depth = depth

    def discard(self, unit: Unit) -> None:
        """A ready unit is no longer wanted; units that were taken already are not here."""
        group = self.groups.get(unit.key)
        if group is not None and group.units.pop(id(unit), None) is not None:
            self.num_ready -= 1
            if not group.units:
                del self.groups[unit.key]

    def take(self) -> list[Unit]:
        """The next batch: the deepest group's oldest units, as many as the budget admits; none when none is ready."""
        if not self.groups:
            return []
        group = max(self.groups.values(), key=_depth)
        units = self._admit(group)
        self.num_ready -= len(units)
        if not group.units:
            del self.groups[group.key]
        return units

    def _admit(self, group: Group) -> list[Unit]:
        """Whole units first; divisible ones share what is left of the token budget, oldest first."""
        width, ready = 1 if self.limits.batch_invariant else self.limits.width, group.units
        taken: list[Unit] = []
        divisible: list[Unit] = []
        while ready and len(taken) + len(divisible) < width:
            unit = ready.popitem(last=False)[1]
            (divisible if unit.divisible else taken).append(unit)
        if divisible:
            left = max(self.limits.step_tokens - len(taken), self.limits.min_prefill)
            for i, unit in enumerate(divisible):
                if left == 0:
                    for late in reversed(divisible[i:]):
                        ready[id(late)] = late
                        ready.move_to_end(id(late), last=False)
                    break
                unit.grant = min(unit.size, left)
                left -= unit.grant
                taken.append(unit)
        return taken


def _depth(group: Group) -> float:
    return group.depth
