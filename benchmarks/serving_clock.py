"""Arrivals and times of tokens: what every contestant that streams counts in the same way."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterator, Sequence

from workload import Outcome, Request


class Clock:
    """Runs from its making. `due` gives the requests whose time has come, `token` notes a token of one."""

    def __init__(self, requests: Sequence[Request]) -> None:
        self._requests = requests
        self._waiting = deque(enumerate(requests))
        self._ids: list[list[int]] = [[] for _ in requests]
        self._first = [0.0] * len(requests)
        self._last = [0.0] * len(requests)
        self._gaps: list[float] = []
        self._start = time.perf_counter()

    def due(self) -> Iterator[tuple[int, Request]]:
        """Requests that have arrived and were not given before."""
        while self._waiting and self._waiting[0][1].arrives <= time.perf_counter() - self._start:
            yield self._waiting.popleft()

    def sleep(self) -> None:
        """Until the next arrival."""
        if self._waiting:
            time.sleep(max(0.0, self._waiting[0][1].arrives - (time.perf_counter() - self._start)))

    def tokens(self, index: int, ids: Sequence[int]) -> None:
        """New tokens of a request."""
        now = time.perf_counter() - self._start
        if self._ids[index]:
            self._gaps.append(now - self._last[index])
        else:
            self._first[index] = now - self._requests[index].arrives
        self._ids[index] += ids
        self._last[index] = now

    @property
    def is_over(self) -> bool:
        """Whether every request has all its tokens."""
        return all(len(ids) >= request.new for ids, request in zip(self._ids, self._requests, strict=True))

    def outcome(self) -> Outcome:
        """All of it."""
        seconds = time.perf_counter() - self._start
        return Outcome(ids=self._ids, seconds=seconds, first=self._first, gaps=self._gaps)
