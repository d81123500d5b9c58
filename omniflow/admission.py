"""Who is let in next, and who is refused at once: queues by priority, bounded by count and bytes."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from torch import Tensor

from omniflow.errors import BusyError
from omniflow_compiler.schedule import Schedule

if TYPE_CHECKING:
    from omniflow.batcher import Limits
    from omniflow.request import Request

MAX_OVERTAKEN = 16  # how often requests of higher priority may go before the first of a lower one


class Queue:
    """Waiting requests: the highest priority first, first come first served within one, and nobody waits for ever."""

    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        self.num_bytes = 0
        self.num_ready = 0  # requests that may be taken
        self._lines: dict[int, OrderedDict[int, Request]] = {}  # by priority; lines are never empty
        self._overtaken: dict[int, int] = {}
        self._parked: dict[int, Request] = {}  # wait for another request and stand in no line yet

    def __len__(self) -> int:
        return self.num_ready + len(self._parked)

    def __iter__(self) -> Iterator[Request]:
        for priority in sorted(self._lines, reverse=True):
            yield from self._lines[priority].values()
        yield from self._parked.values()

    def put(self, request: Request, *, is_parked: bool = False) -> None:
        """Appends a request; one that is parked is not taken until `unpark`.

        Errors: BusyError when the queue is full by count or by bytes of inputs.
        """
        if len(self) >= self.limits.queued:
            raise BusyError(f"{len(self)} requests are waiting and no more are taken; try again later")
        if self.num_bytes and self.num_bytes + request.num_bytes > self.limits.queued_bytes:
            raise BusyError(
                f"waiting requests hold {self.num_bytes} bytes of inputs and this one brings {request.num_bytes}, "
                f"more than {self.limits.queued_bytes} together; try again later"
            )
        self.num_bytes += request.num_bytes
        if is_parked:
            self._parked[request.id] = request
        else:
            self._line(request)[request.id] = request

    def _line(self, request: Request) -> OrderedDict[int, Request]:
        """The line that a request joins."""
        self.num_ready += 1
        return self._lines.setdefault(request.priority, OrderedDict())

    def put_back(self, request: Request) -> None:
        """A request that was let in must wait again: in front of its line, however full the queue is."""
        self.num_bytes += request.num_bytes
        line = self._line(request)
        line[request.id] = request
        line.move_to_end(request.id, last=False)

    def unpark(self, request: Request) -> None:
        """Lets a parked request into its line, in front: it has waited already."""
        line = self._line(request)
        line[request.id] = self._parked.pop(request.id)
        line.move_to_end(request.id, last=False)

    def take(self) -> Request:
        """Takes the next request out; there must be one."""
        priority = self._next_line()
        for other in self._lines:
            if other < priority:
                self._overtaken[other] = self._overtaken.get(other, 0) + 1
        self._overtaken[priority] = 0
        request = next(iter(self._lines[priority].values()))
        self.remove(request)
        return request

    def _next_line(self) -> int:
        """The highest priority, unless a lower one has been overtaken too often."""
        patient = [p for p in self._lines if self._overtaken.get(p, 0) >= MAX_OVERTAKEN]
        return min(patient) if patient else max(self._lines)

    def remove(self, request: Request) -> None:
        """Takes a request out wherever it stands. Errors: KeyError when it does not wait."""
        self.num_bytes -= request.num_bytes
        if self._parked.pop(request.id, None) is not None:
            return
        line = self._lines[request.priority]
        del line[request.id]
        self.num_ready -= 1
        if not line:
            del self._lines[request.priority]
            self._overtaken.pop(request.priority, None)


def bytes_of(inputs: Mapping[str, Any]) -> int:
    """What a request's inputs occupy while it waits; of JSON values the size of their text."""
    total = 0
    for value in inputs.values():
        total += value.numel() * value.element_size() if isinstance(value, Tensor) else len(str(value))
    return total


def reason_to_refuse(schedule: Schedule, deadline: float | None) -> str | None:
    """Why a request cannot be served however long it waits; None when it may be.

    deadline: seconds from its submission. The schedule predicts how long its critical path takes.
    """
    if deadline is not None and deadline < schedule.critical_seconds:
        return f"it needs {schedule.critical_seconds:.3g} s by the schedule's costs and has {deadline:.3g} s"
    return None
