"""The ledger of extents under random leases and frees, and the arena's shape."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from omniflow.kv import Extent, ExtentLedger, KvArena, LedgerError


@given(
    num_blocks=st.integers(1, 24),
    block_tokens=st.integers(1, 5),
    script=st.lists(st.tuples(st.booleans(), st.integers(1, 40)), max_size=60),
)
def test_extents_never_overlap_and_the_counters_equal_a_recount(
    num_blocks: int, block_tokens: int, script: list[tuple[bool, int]]
) -> None:
    ledger = ExtentLedger(num_blocks=num_blocks, block_tokens=block_tokens)
    live: list[Extent] = []
    for leases, number in script:
        if leases:
            largest = ledger.largest_free
            extent = ledger.lease(number)
            assert (extent is None) == (number > largest)
            if extent is not None:
                assert number <= extent.num_tokens < number + block_tokens
                live.append(extent)
        elif live:
            ledger.free(live.pop(number % len(live)))
        slots = [slot for e in live for slot in range(e.start, e.start + e.num_tokens)]
        assert len(slots) == len(set(slots))
        assert all(0 <= slot < ledger.num_tokens for slot in slots)
        assert ledger.usage() == ledger.recount()
        assert ledger.num_free_blocks * block_tokens == ledger.num_tokens - len(slots)
    for extent in live:
        ledger.free(extent)
    assert ledger.num_live == 0
    assert ledger.largest_free == ledger.num_tokens


def test_the_first_gap_that_is_long_enough_is_leased() -> None:
    ledger = ExtentLedger(num_blocks=6, block_tokens=2)
    a, b, c = (ledger.lease(4) for _ in range(3))
    assert a is not None
    assert b is not None
    assert c is not None
    assert ledger.lease(1) is None
    ledger.free(c)
    ledger.free(a)
    assert ledger.lease(3) == Extent(start=0, num_tokens=4)
    assert ledger.lease(1) == Extent(start=8, num_tokens=2)


def test_freeing_twice_and_freeing_a_strangers_extent_are_errors() -> None:
    ledger = ExtentLedger(num_blocks=4, block_tokens=2)
    extent = ledger.lease(3)
    assert extent is not None
    with pytest.raises(LedgerError, match="not leased here"):
        ledger.free(Extent(start=0, num_tokens=2))
    ledger.free(extent)
    with pytest.raises(LedgerError, match="freed before"):
        ledger.free(extent)


def test_a_lease_of_nothing_and_an_arena_of_nothing_are_errors() -> None:
    with pytest.raises(ValueError, match="at least one token"):
        ExtentLedger(num_blocks=1, block_tokens=1).lease(0)
    with pytest.raises(ValueError, match="at least one block"):
        ExtentLedger(num_blocks=0, block_tokens=16)


def test_an_arena_holds_keys_and_values_of_every_layer() -> None:
    arena = KvArena(
        num_layers=3,
        num_kv_heads=2,
        head_dim=4,
        num_blocks=5,
        block_tokens=8,
        dtype=torch.bfloat16,
        device=torch.device("cpu"),
    )
    assert arena.keys.shape == arena.values.shape == (3, 40, 2, 4)
    assert arena.num_bytes == 2 * 2 * 3 * 40 * 2 * 4
