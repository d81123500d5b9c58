"""Randomness that depends on (request seed, node, item, step) and on nothing else that runs.

A request may instead ask for one torch generator, seeded with its seed and drawn node after node (`rng="torch"`): what
published pipelines do under `torch.manual_seed`. Its nodes then start one after another, and no longer overlap.
"""

from __future__ import annotations

from hashlib import blake2b

import torch

from omniflow.errors import InputError

DERIVED, TORCH = "derived", "torch"


def own_generator(rng: str, seed: int) -> torch.Generator | None:
    """The generator that a request draws everything from; None when its draws are derived. Errors: InputError."""
    _check_seed(seed)
    if rng not in (DERIVED, TORCH):
        raise InputError(f"rng must be {DERIVED} or {TORCH}, not {rng}")
    return torch.Generator().manual_seed(seed) if rng == TORCH else None


def _check_seed(seed: object) -> None:
    if not isinstance(seed, int) or not 0 <= seed < 2**63:
        raise InputError(f"seed must be a whole number from 0 to {2**63 - 1}, not {seed!r}")


class Source:
    """The draws of one item of one node."""

    __slots__ = ("_prefix", "shared")

    def __init__(self, seed: int, node: str, item: int, *, shared: torch.Generator | None = None) -> None:
        self.shared = shared  # the request's own generator, where it asked for one
        self._prefix = f"{seed}\0{node}\0{item}\0".encode()

    def inside(self, step: int) -> Source:
        """The draws of a loop that runs inside that step."""
        inner = Source.__new__(Source)
        inner.shared = self.shared
        inner._prefix = self._prefix + f"{step}\0inside\0".encode()
        return inner

    def bits(self, step: int, purpose: str = "") -> int:
        """63 bits for one draw."""
        digest = blake2b(self._prefix + f"{step}\0{purpose}".encode(), digest_size=8).digest()
        return int.from_bytes(digest, "little") >> 1

    def uniform(self, step: int, purpose: str = "") -> float:
        """A number in [0, 1)."""
        return (self.bits(step, purpose) >> 10) / (1 << 53)

    def generator(self, step: int = 0, purpose: str = "") -> torch.Generator:
        """A CPU generator for noise; always CPU, so that the numbers are the same on every device."""
        if self.shared is not None:
            return self.shared
        return torch.Generator().manual_seed(self.bits(step, purpose))
