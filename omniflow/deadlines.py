"""When requests are to end, the nearest first; one that ends by itself leaves nothing behind."""

from __future__ import annotations

import heapq
import threading

SLACK = 64  # entries of requests that have ended, before the heap is made anew


class Deadlines:
    """Times by request id. Its memory is bounded by the requests that have not ended, however far their times are.

    Clients expect from any thread; the engine's reads.
    """

    def __init__(self) -> None:
        self._at: dict[int, float] = {}  # of requests that have not ended
        self._heap: list[tuple[float, int]] = []  # those, and at most as many others
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return len(self._heap)

    def expect(self, request_id: int, at: float) -> None:
        """It is to end at that time."""
        with self._lock:
            self._at[request_id] = at
            heapq.heappush(self._heap, (at, request_id))

    def forget(self, request_id: int) -> None:
        """It has ended."""
        if request_id not in self._at:
            return
        with self._lock:
            self._at.pop(request_id, None)  # another thread may have been here
            if len(self._heap) > 2 * len(self._at) + SLACK:
                self._heap = [(at, request) for request, at in self._at.items()]
                heapq.heapify(self._heap)

    @property
    def next(self) -> float | None:
        """When somebody may have to end; None for never."""
        heap = self._heap
        return heap[0][0] if heap else None

    def passed(self, now: float) -> list[int]:
        """Takes out whose time has come, the earliest first."""
        found = []
        with self._lock:
            while self._heap and self._heap[0][0] <= now:
                request_id = heapq.heappop(self._heap)[1]
                if self._at.pop(request_id, None) is not None:
                    found.append(request_id)
        return found
