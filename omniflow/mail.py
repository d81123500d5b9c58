"""What clients ask of running requests from whatever thread, until the engine's next step reads it."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from contextlib import suppress
from queue import Empty, SimpleQueue

from omniflow.deadlines import Deadlines


class Mail:
    """Cancels, holds and deadlines, by request id, and the bell that wakes who sleeps between steps."""

    def __init__(self) -> None:
        self._cancels: deque[int] = deque()
        self._holds: deque[tuple[int, bool]] = deque()
        self._rung: SimpleQueue[None] = SimpleQueue()  # which signal handlers may put into, unlike threading.Event
        self.deadlines = Deadlines()
        self.bell: Callable[[], None] | None = None  # rung when something comes, for whoever sleeps in an event loop

    def cancel(self, request_id: int) -> None:
        """It is to end."""
        self._cancels.append(request_id)
        self.ring()

    def hold(self, request_id: int, *, is_held: bool) -> None:
        """Its client cannot take more, or can again."""
        self._holds.append((request_id, is_held))
        self.ring()

    def ring(self) -> None:
        """Something has come."""
        self.wake()
        bell = self.bell
        if bell is not None:
            bell()

    def wake(self) -> None:
        """Ends the sleep of who waits in `sleep`, now or when it comes there."""
        if self._rung.empty():
            self._rung.put(None)

    def sleep(self, seconds: float | None) -> None:
        """Until something comes, at most so long."""
        with suppress(Empty):
            self._rung.get(timeout=seconds)

    def has_come(self, now: float) -> bool:
        """Whether there is something to read by now."""
        if self._cancels or self._holds:
            return True
        at = self.deadlines.next
        return at is not None and at <= now

    def holds(self) -> Iterator[tuple[int, bool]]:
        """Takes the holds out, in the order in which they came."""
        while self._holds:
            yield self._holds.popleft()

    def ends(self, now: float) -> Iterator[tuple[int, str | None]]:
        """Takes out who is to end by now, and why unless its client said so."""
        while self._cancels:
            yield self._cancels.popleft(), None
        for request_id in self.deadlines.passed(now):
            yield request_id, "its deadline passed"
