"""Ops of hand-offs between experts: rows for ids, rows at places, ends of streams, positions on a grid, voices."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from omniflow.loops.base import Emit
from omniflow.ops.base import Call


def ids(call: Call) -> Iterator[Emit]:
    """-> `tokens`: the ids of the attribute."""
    yield Emit("tokens", torch.tensor(list(call.params["ids"]), dtype=torch.int64))


def repeat_id(call: Call) -> Iterator[Emit]:
    """`like` -> `tokens`: one id per row of it."""
    like = call.values["like"]
    yield Emit("tokens", torch.full((len(like),), int(call.params["id"]), dtype=torch.int64))


def embed(call: Call) -> Iterator[Emit]:
    """`tokens` ~> `embeds`: the component's input embeddings. Errors: ValueError for ids that it does not know."""
    for window in call.windows.values():
        try:
            yield Emit("embeds", call.component.embed(window.data))
        except IndexError:
            least, most = int(window.data.min()), int(window.data.max())
            raise ValueError(f"ids from {least} to {most} came, and not all of them are in the vocabulary") from None


def zero_at(call: Call) -> Iterator[Emit]:
    """`rows`, `tokens` -> `rows`, zero where the token is one of `ids`."""
    rows, marked = call.values["rows"], _marked(call)
    yield Emit("rows", rows.masked_fill(marked.to(rows.device).view(-1, *[1] * (rows.ndim - 1)), 0))


def put_at(call: Call) -> Iterator[Emit]:
    """`rows`, `tokens`, `values` -> `rows`, those where the token is one of `ids` replaced by the values in order.

    Errors: ValueError unless there are as many values as places.
    """
    rows, values, marked = call.values["rows"], call.values["values"], _marked(call)
    count = int(marked.sum())
    if count != len(values):
        raise ValueError(f"the tokens have {count} places for {len(values)} rows")
    if count:
        rows = rows.clone()
        rows[marked.to(rows.device)] = values.to(rows)
    yield Emit("rows", rows)


def add_last(call: Call) -> Iterator[Emit]:
    """`rows`, `values` -> `rows`, the values added to the last of them. Errors: ValueError for too few rows."""
    rows, values = call.values["rows"], call.values["values"]
    if len(values) > len(rows):
        raise ValueError(f"{len(values)} rows cannot be added to {len(rows)}")
    rest = len(rows) - len(values)
    yield Emit("rows", torch.cat([rows[:rest], rows[rest:] + values]))


def put_last(call: Call) -> Iterator[Emit]:
    """`rows`, `values` -> `rows`, the last of them replaced by the values. Errors: ValueError for too few rows."""
    rows, values = call.values["rows"], call.values["values"]
    if len(values) > len(rows):
        raise ValueError(f"{len(values)} rows cannot take the place of {len(rows)}")
    yield Emit("rows", torch.cat([rows[: len(rows) - len(values)], values]))


def append(call: Call) -> Iterator[Emit]:
    """`value` ~> `value`, and once it has ended `tail`."""
    for window in call.windows.values():
        yield Emit("value", window.data)
    if call.is_end:
        yield Emit("value", call.values["tail"])


def itemize(call: Call) -> Iterator[Emit]:
    """`value`, `beside` ~> the same and `cut`: every window as it was cut, context included, as an item."""
    for port, window in call.windows.items():
        if window.new:
            yield Emit(port, window.data, True)
            if port == "value":
                yield Emit("cut", torch.tensor([window.left, window.new]), True)


def crop(call: Call) -> Iterator[Emit]:
    """`value`, `cut` -> `value`: `scale` elements for each new one of the window, those of its context left out."""
    left, new = (int(call.params["scale"]) * int(count) for count in call.values["cut"])
    yield Emit("value", call.values["value"][left : left + new])


@dataclass(slots=True)
class Drawing:
    """The generator that a stream of noise comes from, once it has begun."""

    generator: torch.Generator | None = None


def noise(call: Call) -> Iterator[Emit]:
    """`like` ~> `noise`: `width` normal numbers per element, the same however the stream is cut.

    Where width is a multiple of 16 this is what torch gives when it draws all of it at once.
    """
    memory: Drawing = call.memory
    if memory.generator is None:
        assert call.rng is not None
        memory.generator = call.rng.generator()
    for window in call.windows.values():
        width = int(call.params["width"])
        drawn = [torch.randn(1, width, generator=memory.generator) for _ in range(window.new)]
        if drawn:
            yield Emit("noise", torch.cat(drawn))


def grid_positions(call: Call) -> Iterator[Emit]:
    """`tokens`, `grids` -> `positions` int64 [P, 3] in time, row and column.

    A run of `ids` as long as the next grid has tokens stands for that picture: its positions start behind what came
    before and spread by frame, row and column; what follows goes on behind the largest. Errors: ValueError for a grid
    without its tokens, or the other way round.
    """
    marked, merge = _marked(call).tolist(), int(call.params["merge"])
    grids: Sequence[Any] = call.values.get("grids", ())
    parts: list[Tensor] = []
    place, free, grid_index = 0, 0, 0
    while place < len(marked):
        if not marked[place]:
            end = next((i for i in range(place, len(marked)) if marked[i]), len(marked))
            parts.append(torch.arange(free, free + end - place)[:, None].expand(-1, 3))
            place, free = end, free + end - place
            continue
        if grid_index == len(grids):
            raise ValueError(f"token {place} stands for a picture, but only {len(grids)} came")
        block = _block(grids[grid_index], merge) + free
        if not all(marked[place : place + len(block)]) or place + len(block) > len(marked):
            raise ValueError(f"picture {grid_index} needs {len(block)} tokens in a row from token {place} on")
        parts.append(block)
        place, free, grid_index = place + len(block), int(block.max()) + 1, grid_index + 1
    if grid_index != len(grids):
        raise ValueError(f"{len(grids)} pictures came, the tokens have places for {grid_index}")
    yield Emit("positions", torch.cat(parts) if parts else torch.zeros(0, 3, dtype=torch.int64))


def voice(call: Call) -> Iterator[Emit]:
    """`name` -> `token`, `vector`, `reference`: what the component knows of that voice."""
    known = call.component.voice(call.values["name"])
    yield Emit("token", known.token)
    yield Emit("vector", known.vector)
    yield Emit("reference", known.reference)


def _marked(call: Call) -> Tensor:
    """Bool [T]: whether a token is one of the attribute's ids."""
    tokens: Tensor = call.values["tokens"]
    return torch.isin(tokens, torch.tensor(list(call.params["ids"]), dtype=torch.int64, device=tokens.device))


def _block(grid: Tensor, merge: int) -> Tensor:
    """int64 [t * h * w, 3]: frame, row and column of each token of a picture."""
    frames, rows, columns = (int(size) for size in grid)
    if min(frames, rows, columns) < 1 or rows % merge or columns % merge:
        raise ValueError(f"a grid {[frames, rows, columns]} does not divide into squares of {merge}")
    axes = (torch.arange(frames), torch.arange(rows // merge), torch.arange(columns // merge))
    return torch.cartesian_prod(*axes).view(-1, 3)
