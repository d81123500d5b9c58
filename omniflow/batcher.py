"""Forms batches: ready units of all requests and nodes, grouped by key, in turns, within budgets."""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Hashable, Mapping
from dataclasses import dataclass

from omniflow.loops.base import Unit


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """What one step and one engine may hold.

    width: most units in a batch; step_tokens: most positions in an autoregressive batch, of which at least
    `min_prefill` are left to prompts; running: most requests in work at once; queued: most requests waiting, whose
    inputs hold at most `queued_bytes`. unit_seconds: how long a call of an expert may take; None waits for ever and
    saves a hand-over between threads per batch. sessions: most open at once, which remember at most `session_bytes`
    together and end when they lie unused for `session_seconds`.
    batch_invariant: every unit is computed alone, so that its bits never depend on its neighbours.
    """

    width: int = 64
    step_tokens: int = 64
    min_prefill: int = 16
    running: int = 256
    queued: int = 100_000
    queued_bytes: int = 1 << 30
    unit_seconds: float | None = None
    sessions: int = 1024
    session_bytes: int = 1 << 30
    session_seconds: float = 3600.0
    batch_invariant: bool = False


class Readiness:
    """Which nodes of one request have ready units, as bits by node index, and units that wait for others of it.

    `due` are the nodes that have ready units and lead to an output on which the request has not been heard.
    """

    __slots__ = ("counts", "deferred", "due", "leading", "mask", "unheard")

    def __init__(self, num_nodes: int, unheard: Mapping[str, int]) -> None:
        self.counts = [0] * num_nodes
        self.mask = 0
        self.unheard = dict(unheard)  # output -> the nodes that lead there
        self.leading = 0
        self.due = 0
        self.deferred: list[Unit] = []
        self._set_leading()

    def add(self, index: int) -> None:
        """A unit of that node became ready."""
        self.counts[index] += 1
        if self.counts[index] == 1:
            self.mask |= 1 << index
            self.due = self.mask & self.leading

    def remove(self, index: int) -> bool:
        """A unit of that node is not ready any more; whether it was the last."""
        self.counts[index] -= 1
        if self.counts[index]:
            return False
        self.mask &= ~(1 << index)
        self.due = self.mask & self.leading
        return True

    def hear(self, output: str) -> None:
        """The first piece of an output left. With the last output nothing is due any more, and nothing is counted."""
        if self.unheard.pop(output, None) is not None:
            self._set_leading()

    def take_deferred(self) -> list[Unit]:
        """All that wait, to be looked at again."""
        units, self.deferred = self.deferred, []
        return units

    def _set_leading(self) -> None:
        self.leading = 0
        for nodes in self.unheard.values():
            self.leading |= nodes
        self.due = self.mask & self.leading


OPS, INNER, LOOPS = 0, 1, 2  # ranks of groups


class Group:
    """Ready units of one key in order of arrival. Keys begin with their family: what kind of batch, on which expert."""

    __slots__ = ("depth", "family", "key", "rank", "units")

    def __init__(self, key: tuple[Hashable, ...], rank: int) -> None:
        self.key = key
        self.family = key[:2]
        self.rank = rank
        self.depth = -1  # of the deepest node that put a unit in
        self.units: OrderedDict[int, Unit] = OrderedDict()  # by identity


class Batcher:
    """Holds the ready units and chooses whose turn it is.

    Ops go first, then inner runs, which fall into step that way and end by themselves. All other families take turns,
    so that no request keeps another from starting; a new family comes first.
    Until a request has been heard on an output, its own units wait for its units further down that lead there: the
    first sentence is spoken before the second is written. What a unit costs here does not depend on how many wait.
    """

    def __init__(self, limits: Limits, recheck: deque[Readiness]) -> None:
        self.limits = limits
        self.recheck = recheck  # whose deferred units may have become due
        self.groups: dict[Hashable, Group] = {}
        self._turn = 0
        self._served: dict[Hashable, int] = {}  # family -> its last turn

    def put(self, unit: Unit) -> None:
        """A unit became ready."""
        run = unit.lane.node
        readiness = run.request.readiness
        if readiness.leading:
            readiness.add(run.bound.index)
        self._insert(unit, run.bound.spec.depth)

    def _insert(self, unit: Unit, depth: int) -> None:
        group = self.groups.get(unit.key)
        if group is None:
            group = self.groups[unit.key] = Group(unit.key, _rank(unit))
        group.units[id(unit)] = unit
        if depth > group.depth:
            group.depth = depth

    def discard(self, unit: Unit) -> None:
        """A ready unit is no longer wanted; one that was taken already is not here."""
        group, deferred = self.groups.get(unit.key), unit.lane.node.request.readiness.deferred
        if group is not None and group.units.pop(id(unit), None) is not None:
            if not group.units:
                del self.groups[unit.key]
        elif unit in deferred:
            deferred.remove(unit)
        else:
            return
        self._leave(unit)

    def take(self) -> list[Unit]:
        """The next batch: as many of the chosen group's units as the budget admits; none when none is ready."""
        while self.recheck:
            deferred = self.recheck.popleft().take_deferred()
            for unit in deferred:
                self._insert(unit, unit.lane.node.bound.spec.depth)
        while self.groups:
            group = min(self.groups.values(), key=self._order)
            units = self._admit(group)
            if not group.units:
                del self.groups[group.key]
            if units:
                self._turn += 1
                self._served[group.family] = self._turn
                for unit in units:
                    self._leave(unit)
                return units
        return []

    def _order(self, group: Group) -> tuple[int, int, int]:
        """The lower rank, then the family that has waited longest, then the deepest."""
        return group.rank, 0 if group.rank == OPS else self._served.get(group.family, 0), -group.depth

    def _leave(self, unit: Unit) -> None:
        run = unit.lane.node
        readiness = run.request.readiness
        if readiness.leading and readiness.remove(run.bound.index) and readiness.deferred:
            self.recheck.append(readiness)

    def _admit(self, group: Group) -> list[Unit]:
        """Whole units first; divisible ones share what is left of the token budget, oldest first."""
        width, ready = 1 if self.limits.batch_invariant else self.limits.width, group.units
        taken: list[Unit] = []
        divisible: list[Unit] = []
        while ready and len(taken) + len(divisible) < width:
            unit = ready.popitem(last=False)[1]
            readiness = unit.lane.node.request.readiness
            if readiness.due and group.rank == LOOPS and unit.lane.node.bound.downstream & readiness.due:
                readiness.deferred.append(unit)
            else:
                (divisible if unit.divisible else taken).append(unit)
        if divisible:
            self._grant(divisible, taken, ready)
        return taken

    def _grant(self, divisible: list[Unit], taken: list[Unit], ready: OrderedDict[int, Unit]) -> None:
        left = max(self.limits.step_tokens - len(taken), self.limits.min_prefill)
        for i, unit in enumerate(divisible):
            if left == 0:
                for late in reversed(divisible[i:]):
                    ready[id(late)] = late
                    ready.move_to_end(id(late), last=False)
                return
            unit.grant = min(unit.size, left)
            left -= unit.grant
            taken.append(unit)


def _rank(unit: Unit) -> int:
    if unit.kind == "op":
        return OPS
    return INNER if unit.expert is not None else LOOPS
