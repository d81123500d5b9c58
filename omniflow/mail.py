"""What clients ask of running requests from whatever thread, until the engine's next step reads it."""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Callable, Iterator


class Mail:
    """Cancels, holds and deadlines, by request id."""

    def __init__(self) -> None:
        self._cancels: deque[int] = deque()
        self._holds: deque[tuple[int, bool]] = deque()
        self._deadlines: list[tuple[float, int]] = []
        self.bell: Callable[[], None] | None = None  # rung when something comes, for whoever sleeps between steps

    def cancel(self, request_id: int) -> None:
        """It is to end."""
        self._cancels.append(request_id)
        self._ring()

    def hold(self, request_id: int, *, is_held: bool) -> None:
        """Its client cannot take more, or can again."""
        self._holds.append((request_id, is_held))
        self._ring()

    def _ring(self) -> None:
        bell = self.bell
        if bell is not None:
            bell()

    def expect(self, request_id: int, at: float) -> None:
        """It is to end at that time of the engine's clock."""
        heapq.heappush(self._deadlines, (at, request_id))

    @property
    def next_deadline(self) -> float | None:
        """When the next request is to end, by the engine's clock; None for never."""
        return self._deadlines[0][0] if self._deadlines else None

    def has_come(self, now: float) -> bool:
        """Whether there is something to read by now."""
        return bool(self._cancels or self._holds or (self._deadlines and self._deadlines[0][0] <= now))

    def holds(self) -> Iterator[tuple[int, bool]]:
        """Takes the holds out, in the order in which they came."""
        while self._holds:
            yield self._holds.popleft()

    def ends(self, now: float) -> Iterator[tuple[int, str | None]]:
        """Takes out who is to end by now, and why unless its client said so."""
        while self._cancels:
            yield self._cancels.popleft(), None
        while self._deadlines and self._deadlines[0][0] <= now:
            yield heapq.heappop(self._deadlines)[1], "its deadline passed"
