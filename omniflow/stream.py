"""What a client sees of a request: pieces of its outputs as they come, and its end."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, NamedTuple

from omniflow.values import Value, concat, cut, is_starred
from omniflow_compiler.schedule import Output

if TYPE_CHECKING:
    from omniflow.agenda import Agenda
    from omniflow.node import NodeRun
    from omniflow.request import Request, Result


class Piece(NamedTuple):
    """A piece of an output. For starred outputs `item` counts its items and `ends_item` marks the last piece of one."""

    request: int
    output: str
    data: Value
    item: int
    ends_item: bool


class Ended(NamedTuple):
    """The last event of a request."""

    result: Result


class Outlet:
    """The reader behind a program output: keeps what comes for the result, tells the request's listener, or both."""

    def __init__(
        self, spec: Output, *, request: Request, writer: NodeRun | None, agenda: Agenda, before: Outlet | None = None
    ) -> None:
        self.spec = spec
        self.id = f"output:{spec.name}"
        self.request = request
        self.keep = request.keep
        self.listener = request.listener
        self.writer = writer
        self.agenda = agenda
        self.items: dict[int, list[Value]] = {}
        self.is_ended = False
        self.is_lost = False  # a node that it depends on has failed
        self.is_full = False
        self.num_pieces = 0
        self.num_elements = 0
        self.first: float | None = None  # when the first piece came, by the engine's clock
        self.last: float | None = None
        self.told: dict[int, int] = {}  # item to elements that the listener has; -1 once it knows that the item ended
        self.earlier: dict[int, int] = {}  # the same of the time before the request began anew
        if before is not None:
            self.first, self.is_full = before.first, before.is_full
            self.earlier = _furthest(before.earlier, before.told)
            if before.first is not None:
                self._hear()
            if before.is_full and writer is not None:
                writer.on_full()

    def put(self, data: Value, item: int, ends_item: bool, size: int) -> None:
        """A piece of `size` elements came; data None only ends the item."""
        if self.keep:
            pieces = self.items.setdefault(item, [])
            if data is not None:
                pieces.append(data)
        if data is not None:
            self.num_pieces += 1
            self.num_elements += size
            self.last = self.agenda.clock
            if self.first is None:
                self.first = self.last
                self._hear()
        if self.listener is not None:
            self._tell(self.listener, data, item, ends_item, size)

    def _tell(self, listener: Callable[[Piece], None], data: Value, item: int, ends_item: bool, size: int) -> None:
        """Tells the listener what it does not have yet."""
        start = self.told.get(item, 0)
        self.told[item] = -1 if ends_item else start + size
        if self.earlier:
            known = self.earlier.get(item, 0)
            if known < 0 or (start + size <= known and not ends_item):
                return
            if data is not None and start < known:
                data = cut(data, min(known - start, size), size)
        listener(Piece(self.request.id, self.spec.name, data, item, ends_item))

    def end(self) -> None:
        """Nothing more will come."""
        self.is_ended = True
        self._hear()

    def _hear(self) -> None:
        readiness = self.request.readiness
        readiness.hear(self.spec.name)
        if readiness.deferred:
            self.agenda.recheck.append(readiness)

    def set_full(self, is_full: bool) -> None:
        """Holds the producer back, or lets it go on."""
        if is_full == self.is_full or self.writer is None:
            return
        self.is_full = is_full
        if is_full:
            self.writer.on_full()
        else:
            self.writer.on_room()

    def value(self) -> Value:
        """All that came: one value, or a list of items for a starred type."""
        values = [concat(pieces, self.spec.type) for pieces in self.items.values()]
        if is_starred(self.spec.type):
            return values
        return values[0] if values else concat([], self.spec.type)


def _furthest(*told: Mapping[int, int]) -> dict[int, int]:
    """What a listener has by now of each item, whichever of a request's beginnings came further."""
    found: dict[int, int] = {}
    for counts in told:
        for item, count in counts.items():
            known = found.get(item, 0)
            found[item] = -1 if -1 in (known, count) else max(known, count)
    return found
