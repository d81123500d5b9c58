"""Ops along the leading axis of values and streams of any kind."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch

from omniflow.loops.base import Done, Emit
from omniflow.ops.base import Call
from omniflow.values import cut


def add(call: Call) -> Iterator[Emit]:
    """`a` + `b` ~> `sum`, element by element as both come."""
    if call.windows:
        yield Emit("sum", call.windows["a"].data + call.windows["b"].data)


def concat(call: Call) -> Iterator[Emit]:
    """`parts`, in the order of their edges -> `whole`."""
    parts = call.values["parts"]
    yield Emit("whole", "".join(parts) if isinstance(parts[0], str) else torch.cat(list(parts)))


def strip(call: Call) -> Iterator[Emit]:
    """`tokens` ~> `tokens` without the ids in `drop`."""
    drop = torch.tensor(list(call.params["drop"]), dtype=torch.int64)
    for window in call.windows.values():
        yield Emit("tokens", window.data[~torch.isin(window.data, drop.to(window.data.device))])


def clamp(call: Call) -> Iterator[Emit]:
    """`tokens` ~> `tokens`, ids outside 0 .. `limit` replaced by `fill`."""
    limit, fill = int(call.params["limit"]), int(call.params.get("fill", 0))
    for window in call.windows.values():
        ids = window.data
        yield Emit("tokens", torch.where((ids < 0) | (ids >= limit), fill, ids))


@dataclass(slots=True)
class Passed:
    """How many elements have gone by."""

    count: int = 0


def slice_range(call: Call) -> Iterator[Emit | Done]:
    """`value` ~> `value`: elements `start` .. `stop` of the leading axis; stop -1 is the end. Done once it has them."""
    memory: Passed = call.memory
    start, stop = int(call.params.get("start", 0)), int(call.params.get("stop", -1))
    for window in call.windows.values():
        first = max(start - memory.count, 0)
        last = window.new if stop < 0 else min(max(stop - memory.count, 0), window.new)
        memory.count += window.new
        if first < last:
            yield Emit("value", cut(window.data, first, last))
    if 0 <= stop <= memory.count:
        yield Done("enough")
