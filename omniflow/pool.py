"""Pools: who holds what of an expert's sequence cache, counted here and, independently, by the cache itself."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol, runtime_checkable

from torch import Tensor

from omniflow.caches import Origin
from omniflow.gathering import Turns
from omniflow.kv import Extent, ExtentLedger
from omniflow.prefixes import ID_BYTES, Prefixes
from omniflow.roles import Autoregressor, Forks, SequenceState


@runtime_checkable
class Pooled(Protocol):
    """An expert whose sequences lease from an arena."""

    @property
    def arena(self) -> ExtentLedger: ...


@runtime_checkable
class Movable(Protocol):
    """A sequence whose cache is an extent of its expert's arena, wherever in it that lies."""

    extent: Extent


class Aside(NamedTuple):
    """A sequence that has no room for the time being: what it had cached, and how much room it needs again."""

    sequence: SequenceState
    saved: tuple[Tensor, ...]
    num_tokens: int

    @property
    def num_bytes(self) -> int:
        """Host memory that it takes."""
        return sum(tensor.numel() * tensor.element_size() for tensor in self.saved)


class NeverFits(ValueError):
    """A sequence that the cache could not hold even if nobody else were there; says need and have."""


class PoolError(Exception):
    """The two counts differ: something leaked or was given back twice. A bug of an expert or of this runtime."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reuse:
    """What a pool needs so that its sequences may begin as others did."""

    expert: Forks
    prefixes: Prefixes
    origin: Callable[[], Origin]  # of what is computed now


class Pool:
    """The open sequences of one expert. All loops bound to the expert share it."""

    def __init__(self, name: str, expert: Autoregressor, reuse: Reuse | None = None) -> None:
        self.name = name
        self.expert = expert
        self.reuse = reuse
        self.arena = expert.arena if isinstance(expert, Pooled) else None  # which counts for itself
        self.turns = Turns()
        self.aside_bytes = 1 << 30  # the most host memory for what is set aside
        self._open: dict[int, SequenceState] = {}
        self._aside: dict[int, Aside] = {}  # of open sequences, by identity

    @property
    def live(self) -> int:
        """Sequences that are open, with room or without."""
        return len(self._open)

    @property
    def num_kept(self) -> int:
        """Finished sequences that later prompts may begin with; they make room for whoever needs it."""
        return 0 if self.reuse is None else self.reuse.prefixes.num_kept

    @property
    def num_used(self) -> int | None:
        """Tokens of cache that are leased; None for an expert that does not tell."""
        arena = self.arena
        return None if arena is None else (arena.num_blocks - arena.num_free_blocks) * arena.block_tokens

    def open(self, conditions: Mapping[str, Tensor], *, max_positions: int) -> SequenceState | None:
        """A sequence, or None while others hold the room. Errors: NeverFits when no others of this engine do."""
        if self.arena is not None and max_positions > self.arena.num_tokens:
            have = self.arena.num_tokens
            raise NeverFits(f"it needs {max_positions} positions and the cache of {self.name} has {have}")
        sequence = self.expert.open(conditions, max_positions=max_positions)
        while sequence is None and self._make_room():
            sequence = self.expert.open(conditions, max_positions=max_positions)
        if sequence is not None:
            self._open[id(sequence)] = sequence
        elif not self._open:
            raise self._beyond(f"{max_positions} positions")
        return sequence

    def _beyond(self, need: str) -> NeverFits:
        """Why there is no room for a sequence while no other of this engine holds any."""
        arena = self.arena
        others = 0 if arena is None else arena.num_live - self.num_kept - self.live + len(self._aside)
        if arena is None or not others:
            return NeverFits(f"it needs {need}, more than the empty cache of {self.name} gives")
        free = arena.num_free_blocks * arena.block_tokens
        who = "a sequence" if others == 1 else f"{others} sequences"
        return NeverFits(
            f"it needs {need} and the cache of {self.name} has {free} free: {who} of other engines of this process "
            "have the rest; try again when they have given it back, or let one engine serve all"
        )

    def open_all(self, conditions: Sequence[Mapping[str, Tensor]], *, max_positions: int) -> list[SequenceState] | None:
        """A sequence for each of the conditions, or none of them. Errors: NeverFits when no others hold the room."""
        opened: list[SequenceState] = []
        for each in conditions:
            sequence = self.open(each, max_positions=max_positions)
            if sequence is None:
                is_alone = len(self._open) == len(opened)
                for other in opened:
                    self.close(other)
                if not is_alone:
                    return None
                raise self._beyond(f"{len(conditions)} sequences of {max_positions} positions")
            opened.append(sequence)
        return opened

    def is_here(self, sequence: SequenceState) -> bool:
        """Whether a sequence has its room."""
        return not self._aside or id(sequence) not in self._aside

    def set_aside(self, sequence: SequenceState) -> bool:
        """Copies what a sequence has cached to host memory and gives its room back; whether that was possible."""
        arena = self.arena
        if arena is None or not isinstance(sequence, Movable):
            return False
        if not self.is_here(sequence):
            return True
        extent = sequence.extent
        aside = Aside(sequence, arena.save(extent, sequence.num_cached), extent.num_tokens)
        if aside.num_bytes + sum(other.num_bytes for other in self._aside.values()) > self.aside_bytes:
            return False
        if self.reuse is not None:
            self.reuse.prefixes.forget(sequence)
        arena.free(extent)
        self._aside[id(sequence)] = aside
        return True

    def bring_back(self, sequence: SequenceState) -> bool:
        """Gives a sequence room again, filled as it was; False while others hold the room."""
        arena, aside = self.arena, self._aside[id(sequence)]
        assert arena is not None
        assert isinstance(sequence, Movable)
        extent = arena.lease(aside.num_tokens)
        while extent is None and self._make_room():
            extent = arena.lease(aside.num_tokens)
        if extent is None:
            return False
        arena.restore(extent, aside.saved)
        sequence.extent = extent
        del self._aside[id(sequence)]
        return True

    def bring_back_all(self, sequences: Sequence[SequenceState]) -> bool:
        """Gives all of these room again, or none of them."""
        back: list[SequenceState] = []
        for sequence in sequences:
            if not self.bring_back(sequence):
                for other in back:
                    self.set_aside(other)
                return False
            back.append(sequence)
        return True

    def touch(self, ids: bytes) -> None:
        """A prompt waits to be read: what it may begin with is the last to make room."""
        if self.reuse is not None:
            self.reuse.prefixes.find(self.reuse.origin(), ids, most=len(ids) // ID_BYTES - 1)

    def share(self, sequence: SequenceState, ids: bytes) -> int:
        """Fills a sequence with what others have cached of its prompt (int64 as bytes) but for the last token.

        Gives how many tokens that spares. From now on others may begin with what this one has.
        """
        if self.reuse is None:
            return 0
        prefixes, origin, before = self.reuse.prefixes, self.reuse.origin(), sequence.num_cached
        hit = prefixes.find(origin, ids, most=len(ids) // ID_BYTES - 1)
        if hit is not None and hit.num_tokens > before:
            self.reuse.expert.fork(hit.entry.sequence, sequence, hit.num_tokens)
        prefixes.follow(origin, ids, sequence)
        return sequence.num_cached - before

    def keep(self, sequence: SequenceState, ids: bytes) -> None:
        """Gives a sequence back that later prompts may begin with: it has cached `ids`. Errors: PoolError."""
        if self.reuse is None or not sequence.num_cached:
            self.close(sequence)
            return
        self._take(sequence)
        closed = self.reuse.prefixes.keep(self.reuse.origin(), ids, sequence)
        if sequence not in closed:
            self.reuse.expert.trim(sequence, len(ids) // ID_BYTES)
        for each in closed:
            self.expert.close(each)

    def clear(self) -> None:
        """Closes all that is kept."""
        while self._make_room():
            pass

    def _make_room(self) -> bool:
        """Closes the kept sequence that was unused the longest, if there is one."""
        sequence = None if self.reuse is None else self.reuse.prefixes.take_oldest()
        if sequence is None:
            return False
        self.expert.close(sequence)
        return True

    def _take(self, sequence: SequenceState) -> None:
        if self._open.pop(id(sequence), None) is None:
            raise PoolError(f"a sequence of {self.name} was closed twice")

    def close(self, sequence: SequenceState) -> None:
        """Gives a sequence back. Errors: PoolError when it is not open."""
        self._take(sequence)
        if self._aside.pop(id(sequence), None) is not None:
            return  # it holds nothing that its expert knows of
        if self.reuse is not None:
            self.reuse.prefixes.forget(sequence)
        self.expert.close(sequence)

    def check(self) -> None:
        """Recounts. Errors: PoolError when the expert's ledger holds more or fewer sequences than are open."""
        if self.arena is not None:
            usage, recount = self.arena.usage(), self.arena.recount()
            with_room = self.live - len(self._aside)
            if usage != recount or recount.num_live != with_room + self.num_kept:
                held = f"{with_room} open sequences with room and {self.num_kept} kept"
                raise PoolError(f"{self.name}: {held}, ledger says {usage}, recounted {recount}")


class Pools:
    """All pools of a loaded schedule."""

    def __init__(self, pools: Iterable[Pool]) -> None:
        self.pools = tuple(pools)

    @property
    def live(self) -> int:
        """Open sequences of all experts."""
        return sum(pool.live for pool in self.pools)

    @property
    def num_kept(self) -> int:
        """Finished sequences that are kept, of all experts."""
        return sum(pool.num_kept for pool in self.pools)

    def prepare(self, *, is_invariant: bool, aside_bytes: int) -> None:
        """Takes an engine's limits. is_invariant: sequences begin as others did only where that changes no bit."""
        for pool in self.pools:
            pool.aside_bytes = aside_bytes
            if is_invariant and pool.reuse is not None and not pool.reuse.expert.is_exact:
                pool.reuse = None

    def check(self) -> None:
        """Recounts all. Errors: PoolError."""
        for pool in self.pools:
            pool.check()
