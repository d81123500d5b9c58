"""Forms batches: ready units of all requests and nodes, grouped by key, in turns, within budgets."""

from __future__ import annotations

from collections import deque
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
    together and end when they lie unused for `session_seconds`. aside_bytes: most host memory, per expert, for caches
    of requests that had to give up their room; beyond it they begin anew.
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
    aside_bytes: int = 1 << 30
    batch_invariant: bool = False

    def __post_init__(self) -> None:
        """Errors: ValueError for a limit with which nothing could ever run."""
        counts = {"width": self.width, "step_tokens": self.step_tokens, "min_prefill": self.min_prefill}
        counts |= {"running": self.running, "queued": self.queued, "sessions": self.sessions}
        for name, count in counts.items():
            if count < 1:
                raise ValueError(f"the limit {name} is {count}, the least is 1")
        if self.unit_seconds is not None and not self.unit_seconds > 0:
            raise ValueError(f"the limit unit_seconds is {self.unit_seconds:g}, and a call must be given some time")


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

    def __init__(self, first: Unit) -> None:
        self.key = first.key
        self.family = first.key[:2]
        self.rank = _rank(first)
        self.depth: int = first.lane.node.bound.spec.depth  # of the deepest node that put a unit in
        self.units: deque[Unit] = deque()


class Batcher:
    """Holds the ready units and chooses whose turn it is.

    Ops go first, then inner runs, which fall into step that way and end by themselves. All other families take turns,
    so that no request keeps another from starting; a new family comes first.
    Until a request has been heard on an output, its own units wait for its units further down that lead there: the
    first sentence is spoken before the second is written. Ops and inner runs, which always go before, neither wait nor
    are waited for. What a unit costs here does not depend on how many wait.
    """

    def __init__(self, limits: Limits, recheck: deque[Readiness]) -> None:
        self.limits = limits
        self.recheck = recheck  # whose deferred units may have become due
        self.width = 1 if limits.batch_invariant else limits.width
        self.groups: dict[Hashable, Group] = {}
        self._turn = 0
        self._served: dict[Hashable, int] = {}  # family -> its last turn

    def put(self, unit: Unit) -> None:
        """A unit became ready."""
        group = self.groups.get(unit.key)
        if group is None:
            group = self.groups[unit.key] = Group(unit)
        group.units.append(unit)
        if group.rank != OPS:
            run = unit.lane.node
            if run.bound.spec.depth > group.depth:
                group.depth = run.bound.spec.depth
            if group.rank == LOOPS and run.request.readiness.leading:
                run.request.readiness.add(run.bound.index)

    def discard(self, unit: Unit) -> None:
        """A ready unit is no longer wanted; one that was taken already is not here."""
        group, deferred = self.groups.get(unit.key), unit.lane.node.request.readiness.deferred
        if group is not None and unit in group.units:
            group.units.remove(unit)
            if not group.units:
                del self.groups[unit.key]
        elif unit in deferred:
            deferred.remove(unit)
        else:
            return
        if _rank(unit) == LOOPS:
            self._leave(unit)

    def take(self) -> list[Unit]:
        """The next batch: as many of the chosen group's units as the budget admits; none when none is ready."""
        if self.recheck:
            self._return_deferred()
        while self.groups:
            group = self._next_group()
            units = self._admit_due(group) if group.rank == LOOPS else self._admit(group)
            if not group.units:
                del self.groups[group.key]
            if units:
                if group.rank != OPS:
                    self._turn += 1
                    self._served[group.family] = self._turn
                return units
        return []

    def _return_deferred(self) -> None:
        """Looks again at the units that waited for others of their request."""
        while self.recheck:
            for unit in self.recheck.popleft().take_deferred():
                group = self.groups.get(unit.key)
                if group is None:
                    group = self.groups[unit.key] = Group(unit)
                group.units.append(unit)
                group.depth = max(group.depth, unit.lane.node.bound.spec.depth)

    def _next_group(self) -> Group:
        """The lower rank, then the family that has waited longest, then the deepest."""
        if len(self.groups) == 1:
            return next(iter(self.groups.values()))
        return min(self.groups.values(), key=self._order)

    def _order(self, group: Group) -> tuple[int, int, int]:
        return group.rank, 0 if group.rank == OPS else self._served.get(group.family, 0), -group.depth

    def _leave(self, unit: Unit) -> None:
        run = unit.lane.node
        readiness = run.request.readiness
        if readiness.leading and readiness.remove(run.bound.index) and readiness.deferred:
            self.recheck.append(readiness)

    def _admit(self, group: Group) -> list[Unit]:
        """The oldest units."""
        ready = group.units
        if len(ready) <= self.width:
            units = list(ready)
            ready.clear()
            return units
        return [ready.popleft() for _ in range(self.width)]

    def _admit_due(self, group: Group) -> list[Unit]:
        """Whole units first; divisible ones share what is left of the token budget, oldest first."""
        ready = group.units
        taken: list[Unit] = []
        divisible: list[Unit] = []
        while ready and len(taken) + len(divisible) < self.width:
            unit = ready.popleft()
            readiness = unit.lane.node.request.readiness
            if readiness.due and unit.lane.node.bound.downstream & readiness.due:
                readiness.deferred.append(unit)
            else:
                (divisible if unit.divisible else taken).append(unit)
        if divisible:
            self._grant(divisible, taken, ready)
        for unit in taken:
            if unit.lane.node.request.readiness.leading:
                self._leave(unit)
        return taken

    def _grant(self, divisible: list[Unit], taken: list[Unit], ready: deque[Unit]) -> None:
        left = max(self.limits.step_tokens - len(taken), self.limits.min_prefill)
        for i, unit in enumerate(divisible):
            if left == 0:
                ready.extendleft(reversed(divisible[i:]))
                return
            unit.grant = min(unit.size, left)
            left -= unit.grant
            taken.append(unit)


def _rank(unit: Unit) -> int:
    if unit.kind == "op":
        return OPS
    return INNER if unit.expert is not None else LOOPS
