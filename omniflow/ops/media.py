"""Ops that prepare sounds and pictures for encoders, and make room for them among tokens."""

from __future__ import annotations

from collections.abc import Iterator

import torch

from omniflow.loops.base import Emit
from omniflow.ops.base import Call


def log_mel(call: Call) -> Iterator[Emit]:
    """`samples` [S] -> `features` [bands, F]."""
    yield Emit("features", call.component.features(call.values["samples"], end=call.params.get("end", "silence")))


def patches(call: Call) -> Iterator[Emit]:
    """`picture` uint8 [H, W, 3] -> `pixels` [Q, numbers], `grid` int64 [3]."""
    pixels, grid = call.component.patches(call.values["picture"])
    yield Emit("pixels", pixels)
    yield Emit("grid", grid)


def repeat_at(call: Call) -> Iterator[Emit]:
    """`tokens`, `like` (items) -> `tokens`: the n-th of `ids` among them as often as item n has rows.

    Errors: ValueError unless there are as many such tokens as items.
    """
    tokens, items, ids = call.values["tokens"], call.values["like"], [int(i) for i in call.params["ids"]]
    marked = torch.isin(tokens, torch.tensor(ids, dtype=torch.int64, device=tokens.device))
    count = int(marked.sum())
    if count != len(items):
        names = " or ".join(str(i) for i in ids)
        raise ValueError(f"the prompt has {count} places (token {names}) for {len(items)} sounds or pictures")
    repeats = torch.ones_like(tokens)
    repeats[marked] = torch.tensor([len(item) for item in items], dtype=torch.int64, device=tokens.device)
    yield Emit("tokens", torch.repeat_interleave(tokens, repeats))
