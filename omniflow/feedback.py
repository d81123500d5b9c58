"""Back edges: a stream that a node reads from behind itself, begun by an initial value and ended by a bound."""

from __future__ import annotations

from typing import Any

import torch

from omniflow.channel import Channel, Sink
from omniflow.values import Value, cut, dtype_of
from omniflow_compiler.schedule import PortType


class Feedback:
    """Stands before the channel of a back edge: passes `bound` elements on and then ends it."""

    def __init__(self, channel: Channel) -> None:
        self.channel: Sink = channel
        self.id = channel.id
        self.left = int(channel.spec.back_edge["bound"])

    @property
    def is_full(self) -> bool:
        """Whether the channel behind it is."""
        return self.channel.is_full

    def put(self, data: Value, item: int, ends_item: bool, size: int) -> None:
        """A piece; what goes beyond the bound is dropped."""
        if not self.left:
            return
        if data is not None and size > self.left:
            data, size = cut(data, 0, self.left), self.left
        self.left -= size if data is not None else 0
        self.channel.put(data, item, ends_item, size)
        if not self.left:
            self.channel.end()

    def end(self) -> None:
        """The writer has ended."""
        self.channel.end()


def initial_value(kind: PortType, written: Any) -> Value:
    """One element of an edge's type, all of it as written in `initial`. Errors: ValueError when that cannot be."""
    if kind.base == "text":
        return str(written)
    sizes = [int(axis) if axis.isdigit() else 0 for axis in kind.axes[1:]]
    if 0 in sizes:
        raise ValueError(f"an initial value of {kind.text} needs every size to be known")
    return torch.full((1, *sizes), written, dtype=dtype_of(kind))
