"""Requests of the benchmarks and what became of them; needs nothing but Python."""

from __future__ import annotations

import random as stdlib_random
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """A prompt that arrives `arrives` seconds after the start and wants `new` tokens."""

    prompt: tuple[int, ...]
    new: int
    arrives: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """Ids per request, seconds until all were done, seconds to each first token, seconds between later tokens."""

    ids: list[list[int]]
    seconds: float
    first: list[float] = field(default_factory=list)
    gaps: list[float] = field(default_factory=list)

    @property
    def rate(self) -> float:
        """New tokens per second over all requests."""
        return sum(len(ids) for ids in self.ids) / self.seconds


def single(vocab: int, scale: int = 1) -> list[Request]:
    """One request: 64 tokens in, 128 out; `scale` times fewer out for a quick look."""
    return _requests(1, vocab, prompts=(64, 64), news=(128 // scale, 128 // scale))


def arriving(count: int, vocab: int, scale: int = 1) -> list[Request]:
    """`count` requests, one every 50 ms, 16 to 112 tokens in and 32 to 96 out, or `scale` times fewer."""
    return _requests(count, vocab, prompts=(16, 112), news=(32 // scale, 96 // scale))


def _requests(count: int, vocab: int, *, prompts: tuple[int, int], news: tuple[int, int]) -> list[Request]:
    pick = stdlib_random.Random(count)
    return [
        Request(
            prompt=tuple(pick.randrange(vocab) for _ in range(pick.randint(*prompts))),
            new=pick.randint(*news),
            arrives=0.05 * i,
        )
        for i in range(count)
    ]
