"""The key/value store of one expert: a fixed arena of tokens that sequences lease contiguous extents of.

`ExtentLedger` is the accounting alone; `KvArena` adds the tensors. Nothing is moved, copied or re-allocated while
sequences grow: an extent is as long as its sequence may become.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from mmap import mmap

import torch
from torch import Tensor


@dataclass(frozen=True, slots=True, kw_only=True)
class Extent:
    """A leased run of token slots `start .. start + num_tokens`; both are multiples of the block size."""

    start: int
    num_tokens: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """How full a ledger is. `largest_free` is the longest sequence (in tokens) that a lease could still get."""

    num_free_blocks: int
    num_live: int
    largest_free: int


class LedgerError(Exception):
    """An extent given back that is not leased: a fault of the caller, found before it can do harm."""


class ExtentLedger:
    """First-fit accounting of whole blocks of tokens; holds no tensors."""

    def __init__(self, *, num_blocks: int, block_tokens: int) -> None:
        if num_blocks < 1 or block_tokens < 1:
            raise ValueError(f"a KV arena needs at least one block of one token, not {num_blocks} of {block_tokens}")
        self.num_blocks = num_blocks
        self.block_tokens = block_tokens
        self._gaps: list[tuple[int, int]] = [(0, num_blocks)]  # (first block, blocks), sorted, never touching
        self._live: dict[int, int] = {}  # first block -> blocks

    @property
    def num_tokens(self) -> int:
        """The size of the arena."""
        return self.num_blocks * self.block_tokens

    @property
    def num_live(self) -> int:
        """How many extents are leased."""
        return len(self._live)

    @property
    def num_free_blocks(self) -> int:
        """How many blocks are in no extent."""
        return sum(blocks for _, blocks in self._gaps)

    @property
    def largest_free(self) -> int:
        """The most tokens that one lease could get now."""
        return max((blocks for _, blocks in self._gaps), default=0) * self.block_tokens

    def usage(self) -> Usage:
        """The counters as they are kept."""
        return Usage(num_free_blocks=self.num_free_blocks, num_live=self.num_live, largest_free=self.largest_free)

    def lease(self, num_tokens: int) -> Extent | None:
        """The first gap of at least `num_tokens`, rounded up to blocks; None while there is none.

        Errors: ValueError for fewer than one token.
        """
        if num_tokens < 1:
            raise ValueError(f"a lease needs at least one token, not {num_tokens}")
        need = -(-num_tokens // self.block_tokens)
        for i, (first, blocks) in enumerate(self._gaps):
            if blocks >= need:
                self._gaps[i : i + 1] = [(first + need, blocks - need)] if blocks > need else []
                self._live[first] = need
                return Extent(start=first * self.block_tokens, num_tokens=need * self.block_tokens)
        return None

    def free(self, extent: Extent) -> None:
        """Gives an extent back. Errors: LedgerError when it is not leased (freed twice, or of another arena)."""
        first, blocks = extent.start // self.block_tokens, extent.num_tokens // self.block_tokens
        if self._live.get(first) != blocks:
            raise LedgerError(f"{extent} is not leased here: it was freed before or belongs to another arena")
        del self._live[first]
        self._insert_gap(first, blocks)

    def trim(self, extent: Extent, num_tokens: int) -> Extent:
        """The extent cut to the blocks of its first `num_tokens`; the rest is free again.

        Errors: LedgerError when it is not leased; ValueError when it is not as long, or for fewer than one token.
        """
        first, blocks = extent.start // self.block_tokens, extent.num_tokens // self.block_tokens
        if self._live.get(first) != blocks:
            raise LedgerError(f"{extent} is not leased here: it was freed before or belongs to another arena")
        if not 1 <= num_tokens <= extent.num_tokens:
            raise ValueError(f"{extent} cannot be cut to {num_tokens} tokens")
        need = -(-num_tokens // self.block_tokens)
        if need == blocks:
            return extent
        self._live[first] = need
        self._insert_gap(first + need, blocks - need)
        return Extent(start=extent.start, num_tokens=need * self.block_tokens)

    def _insert_gap(self, first: int, blocks: int) -> None:
        at = bisect_left(self._gaps, (first, blocks))
        lo = hi = at
        if at < len(self._gaps) and self._gaps[at][0] == first + blocks:
            blocks += self._gaps[at][1]
            hi = at + 1
        if at > 0 and sum(self._gaps[at - 1]) == first:
            lo = at - 1
            first, blocks = self._gaps[lo][0], self._gaps[lo][1] + blocks
        self._gaps[lo:hi] = [(first, blocks)]

    def save(self, extent: Extent, num_tokens: int) -> tuple[Tensor, ...]:
        """What the extent's first slots hold, to be restored in another one: nothing here."""
        del extent, num_tokens
        return ()

    def restore(self, extent: Extent, saved: Sequence[Tensor]) -> None:
        """Fills the first slots of an extent with what was saved."""

    def recount(self) -> Usage:
        """The usage counted again from the live extents alone, block by block.

        Errors: LedgerError when two extents overlap or one leaves the arena.
        """
        taken = bytearray(self.num_blocks)
        for first, blocks in self._live.items():
            if first + blocks > self.num_blocks or any(taken[first : first + blocks]):
                raise LedgerError(f"blocks {first} .. {first + blocks} are leased twice or do not exist")
            taken[first : first + blocks] = b"\1" * blocks
        longest = max((len(run) for run in bytes(taken).split(b"\1")), default=0)
        return Usage(num_free_blocks=taken.count(0), num_live=len(self._live), largest_free=longest * self.block_tokens)


def _zeros(shape: tuple[int, ...], dtype: torch.dtype, device: torch.device) -> Tensor:
    """Zeros whose pages become real as they are first written; `torch.zeros` writes all of them at once."""
    if device.type != "cpu":
        return torch.zeros(shape, dtype=dtype, device=device)
    memory = mmap(-1, prod(shape) * dtype.itemsize)
    return torch.frombuffer(memory, dtype=dtype).view(shape)


class KvArena(ExtentLedger):
    """Keys and values of one expert: `keys` and `values`, each [layers, tokens, kv_heads, head_dim].

    Slot t of an extent is row `extent.start + t` in every layer. Made once; pages of memory become real as they are
    first written.
    """

    def __init__(
        self,
        *,
        num_layers: int,
        num_kv_heads: int,
        head_dim: int,
        num_blocks: int,
        block_tokens: int,
        dtype: torch.dtype,
        device: torch.device,
    ) -> None:
        super().__init__(num_blocks=num_blocks, block_tokens=block_tokens)
        shape = (num_layers, self.num_tokens, num_kv_heads, head_dim)
        self.keys: Tensor = _zeros(shape, dtype, device)
        self.values: Tensor = _zeros(shape, dtype, device)

    def copy(self, source: Extent, target: Extent, start: int, stop: int) -> None:
        """Keys and values of slots `start .. stop` of one extent into the same ones of another."""
        old, new = slice(source.start + start, source.start + stop), slice(target.start + start, target.start + stop)
        self.keys[:, new] = self.keys[:, old]
        self.values[:, new] = self.values[:, old]

    def save(self, extent: Extent, num_tokens: int) -> tuple[Tensor, ...]:
        """Keys and values of an extent's first slots, copied to host memory."""
        part = slice(extent.start, extent.start + num_tokens)
        return tuple(store[:, part].to("cpu", copy=True) for store in (self.keys, self.values))

    def restore(self, extent: Extent, saved: Sequence[Tensor]) -> None:
        """Puts what was saved of an extent into the first slots of this one."""
        for store, copy in zip((self.keys, self.values), saved, strict=True):
            store[:, extent.start : extent.start + copy.size(1)] = copy

    @property
    def num_bytes(self) -> int:
        """Bytes of keys and values together."""
        return 2 * self.keys.numel() * self.keys.element_size()
