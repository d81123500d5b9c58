"""Caches handed on by reference: who holds the open sequence that a loop filled, and who may gather several of them."""

from __future__ import annotations

from omniflow.pool import Pool
from omniflow.roles import SequenceState
from omniflow.values import Shared


class Lease(Shared):
    """A value of type `kv`. The sequence is closed when the last holder lets go: the loop that filled it, or an edge.

    Whoever reads it must not write: several may read at once.
    """

    __slots__ = ("_holders", "_owner", "_pool", "sequence")

    def __init__(self, pool: Pool, sequence: SequenceState, owner: int) -> None:
        self.sequence = sequence
        self._pool = pool
        self._owner = owner
        self._holders = 1  # the loop that filled it

    def hold(self) -> None:
        """One more holds it."""
        self._holders += 1

    def drop(self) -> None:
        """One holder less; after the last one the pool has its room back."""
        self._holders -= 1
        if self._holders == 0:
            self._pool.turns.left(self._owner)
            self._pool.close(self.sequence)
