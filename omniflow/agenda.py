"""What the engine must look at before its next batch, and the clock that its steps go by."""

from __future__ import annotations

import time
from collections import deque
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from omniflow.batcher import Readiness
    from omniflow.node import Lane, NodeRun
    from omniflow.trace import Trace


class Agenda:
    """What the engine must look at before its next batch."""

    __slots__ = ("_born", "clock", "lanes", "nodes", "recheck", "trace")

    def __init__(self, trace: Trace | None) -> None:
        self.lanes: deque[Lane] = deque()
        self.nodes: deque[NodeRun] = deque()
        self.recheck: deque[Readiness] = deque()  # requests whose deferred units may have become due
        self.trace = trace
        self.clock = 0.0  # of this step
        self._born = time.perf_counter()

    def now(self) -> float:
        """Seconds since the engine was made."""
        return time.perf_counter() - self._born
