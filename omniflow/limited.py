"""Edges into inputs of stages and graphs that let in no more than so many elements: too many fail who reads them."""

from __future__ import annotations

from torch import Tensor

from omniflow.channel import Channel, Reader, Window, Writer
from omniflow.lengths import in_elements
from omniflow.values import Value, length
from omniflow_compiler.schedule import Channel as ChannelSpec


class LimitedChannel(Channel):
    """A channel whose reader gets a ValueError once more has come along an axis than `limits` of the edge allow.

    What came and what still comes is dropped then; the writer does not notice.
    """

    def __init__(self, spec: ChannelSpec, *, mode: str, reader: Reader, writer: Writer | None) -> None:
        super().__init__(spec, mode=mode, reader=reader, writer=writer)
        self.problem: str | None = None

    def put(self, data: Value, item: int, ends_item: bool, size: int | None = None) -> None:
        """A piece, unless there are too many elements by now."""
        if self.problem is None and not self.is_closed:
            self.problem = self._over(data, item, size)
            if self.problem is None:
                super().put(data, item, ends_item, size)
            else:
                self._break()

    def _over(self, data: Value, item: int, size: int | None) -> str | None:
        """What is too much with one more piece."""
        held = self.items.get(item)
        new = 0 if data is None else length(data) if size is None else size
        total = new if held is None else held.total + new
        counts = [item + 1] if self.is_starred else []
        counts += [total, *(data.shape[1:] if isinstance(data, Tensor) else ())]
        for axis, (count, most) in enumerate(zip(counts, self.spec.limits, strict=False)):
            if 0 < most < count:
                return f"edge {self.id} brings {in_elements(self.spec.type, axis, count, most)}"
        return None

    def _break(self) -> None:
        while self.shared:
            self.shared.pop().drop()
        self.items.clear()
        self._add(-self.count)
        self.is_ended = True
        self.reader.on_end()

    def _check(self) -> None:
        """Errors: ValueError."""
        if self.problem is not None:
            raise ValueError(self.problem)

    def value(self) -> Value:
        """As of a channel. Errors: ValueError for more than the limits."""
        self._check()
        return super().value()

    def take_item(self, item: int) -> Value:
        """As of a channel. Errors: ValueError for more than the limits."""
        self._check()
        return super().take_item(item)

    def has_item(self, item: int) -> bool:
        """As of a channel. Errors: ValueError for more than the limits."""
        self._check()
        return super().has_item(item)

    def available(self, item: int) -> int:
        """As of a channel. Errors: ValueError for more than the limits."""
        self._check()
        return super().available(item)

    def ready(self, item: int) -> int | None:
        """As of a channel. Errors: ValueError for more than the limits."""
        self._check()
        return super().ready(item)

    def take_come(self, item: int) -> Window | None:
        """As of a channel. Errors: ValueError for more than the limits."""
        self._check()
        return super().take_come(item)
