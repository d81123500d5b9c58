"""Ops on places: turns of a chat, rows at places, rows that go before a stream, projections into another space."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

import torch
from torch import Tensor

from omniflow.loops.base import Emit
from omniflow.ops.base import Call


def by_role(call: Call) -> Iterator[Emit]:
    """`tokens` -> `places` int64 [K] of the turns of a role: from a token `opens` that `role` follows to the next one.

    Errors: ValueError when the first or last turn is asked for and there is none.
    """
    tokens = call.values["tokens"].tolist()
    opens, role, which = int(call.params["opens"]), int(call.params["role"]), call.params.get("which", "all")
    starts = [i for i, token in enumerate(tokens) if token == opens]
    turns = [
        range(start, end) for start, end in pairwise([*starts, len(tokens)]) if tokens[start + 1 : start + 2] == [role]
    ]
    if which != "all" and not turns:
        raise ValueError(f"there is no turn of role {role} (behind a token {opens})")
    chosen = {"all": turns, "first": turns[:1], "last": turns[-1:]}[which]
    yield Emit("places", torch.tensor([place for turn in chosen for place in turn], dtype=torch.int64))


def take(call: Call) -> Iterator[Emit]:
    """`rows`, `places` -> `rows` at the places."""
    rows, places = call.values["rows"], call.values["places"]
    yield Emit("rows", rows[places.to(rows.device)])


def take_at(call: Call) -> Iterator[Emit]:
    """`rows`, `tokens` -> `rows` where the token is one of `ids`."""
    rows = call.values["rows"]
    yield Emit("rows", rows[_marked(call).to(rows.device)])


def spread_at(call: Call) -> Iterator[Emit]:
    """`tokens`, `values` -> `rows`: the values in order where the token is one of `ids`, zeros elsewhere.

    Errors: ValueError unless there are as many values as places.
    """
    values, marked = call.values["values"], _marked(call)
    count = int(marked.sum())
    if count != len(values):
        raise ValueError(f"the tokens have {count} places for {len(values)} rows")
    rows = values.new_zeros(len(marked), *values.shape[1:])
    rows[marked.to(rows.device)] = values
    yield Emit("rows", rows)


def put_first(call: Call) -> Iterator[Emit]:
    """`rows`, `values` -> `rows`, the first of them replaced by the values. Errors: ValueError for too few rows."""
    rows, values = call.values["rows"], call.values["values"]
    if len(values) > len(rows):
        raise ValueError(f"{len(values)} rows cannot be put in place of {len(rows)}")
    yield Emit("rows", torch.cat([values.to(rows), rows[len(values) :]]))


@dataclass(slots=True)
class Begun:
    """Whether the value in front has left."""

    has_left: bool = False


def prepend(call: Call) -> Iterator[Emit]:
    """`head`, then `value` ~> `value`."""
    memory: Begun = call.memory
    if not memory.has_left:
        memory.has_left = True
        yield Emit("value", call.values["head"])
    for window in call.windows.values():
        yield Emit("value", window.data)


def project(call: Call) -> Iterator[Emit]:
    """`rows` ~> `rows` by the component's projection `through`."""
    for window in call.windows.values():
        yield Emit("rows", call.component.project(window.data, call.params["through"]))


def voice_id(call: Call) -> Iterator[Emit]:
    """`name` -> `token` int64 [1]."""
    yield Emit("token", call.component.voice(call.values["name"]).token)


def _marked(call: Call) -> Tensor:
    """Bool [T]: whether a token is one of the attribute's ids."""
    tokens: Tensor = call.values["tokens"]
    return torch.isin(tokens, torch.tensor(list(call.params["ids"]), dtype=torch.int64, device=tokens.device))
