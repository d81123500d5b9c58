"""Pools: who holds what of an expert's sequence cache, counted here and, independently, by the cache itself."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Protocol, runtime_checkable

from torch import Tensor

from omniflow.kv import ExtentLedger
from omniflow.roles import Autoregressor, SequenceState


@runtime_checkable
class Pooled(Protocol):
    """An expert whose sequences lease from an arena."""

    @property
    def arena(self) -> ExtentLedger: ...


class NeverFits(ValueError):
    """A sequence that the cache could not hold even if nobody else were there; says need and have."""


class PoolError(Exception):
    """The two counts differ: something leaked or was given back twice. A bug of an expert or of this runtime."""


class Turns:
    """Whose turn it is to gather caches that are handed on.

    A request that has some of the caches it needs and waits for another holds room that it cannot give back. Two of
    them could wait for each other for ever, so one gathers at a time; `needed` is how many each request gathers.
    """

    def __init__(self) -> None:
        self.needed = 0
        self._owner: int | None = None
        self._count = 0

    def may(self, owner: int) -> bool:
        """Whether that request may open another."""
        return self._owner in (None, owner)

    def took(self, owner: int) -> None:
        """It opened one; with the last one the turn is over."""
        self._owner, self._count = owner, self._count + 1
        if self._count >= self.needed:
            self._owner, self._count = None, 0

    def left(self, owner: int) -> None:
        """A sequence of that request was closed: while it gathers, that is the end of the request."""
        if self._owner == owner:
            self._owner, self._count = None, 0


class Pool:
    """The open sequences of one expert. All loops bound to the expert share it."""

    def __init__(self, name: str, expert: Autoregressor) -> None:
        self.name = name
        self.expert = expert
        self.turns = Turns()
        self._open: dict[int, SequenceState] = {}

    @property
    def live(self) -> int:
        """Sequences that are open."""
        return len(self._open)

    @property
    def num_used(self) -> int | None:
        """Tokens of cache that are leased; None for an expert that does not tell."""
        arena = self.expert.arena if isinstance(self.expert, Pooled) else None
        return None if arena is None else (arena.num_blocks - arena.num_free_blocks) * arena.block_tokens

    def open(self, conditions: Mapping[str, Tensor], *, max_positions: int) -> SequenceState | None:
        """A sequence, or None while others hold the room. Errors: NeverFits when no others do."""
        arena = self.expert.arena if isinstance(self.expert, Pooled) else None
        if arena is not None and max_positions > arena.num_tokens:
            raise NeverFits(f"it needs {max_positions} positions and the cache of {self.name} has {arena.num_tokens}")
        sequence = self.expert.open(conditions, max_positions=max_positions)
        if sequence is not None:
            self._open[id(sequence)] = sequence
        elif not self._open:
            raise NeverFits(f"it needs {max_positions} positions, more than the empty cache of {self.name} gives")
        return sequence

    def close(self, sequence: SequenceState) -> None:
        """Gives a sequence back. Errors: PoolError when it is not open."""
        if self._open.pop(id(sequence), None) is None:
            raise PoolError(f"a sequence of {self.name} was closed twice")
        self.expert.close(sequence)

    def check(self) -> None:
        """Recounts. Errors: PoolError when the expert's ledger holds more or fewer sequences than are open."""
        if isinstance(self.expert, Pooled):
            usage, recount = self.expert.arena.usage(), self.expert.arena.recount()
            if usage != recount or recount.num_live != self.live:
                raise PoolError(f"{self.name}: {self.live} open sequences, ledger says {usage}, recounted {recount}")


class Pools:
    """All pools of a loaded schedule."""

    def __init__(self, pools: Iterable[Pool]) -> None:
        self.pools = tuple(pools)

    @property
    def live(self) -> int:
        """Open sequences of all experts."""
        return sum(pool.live for pool in self.pools)

    def check(self) -> None:
        """Recounts all. Errors: PoolError."""
        for pool in self.pools:
            pool.check()
