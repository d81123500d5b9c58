"""Ops that prepare what picture and video models read."""

from __future__ import annotations

from collections.abc import Iterator

import torch

from omniflow.loops.base import Emit
from omniflow.ops.base import Call
from omniflow.roles import FixedTokenizer


def tokenize_fixed(call: Call) -> Iterator[Emit]:
    """`text` -> `tokens` and `mask`, both of the same fixed length. Errors: ValueError for another tokenizer."""
    if not isinstance(call.component, FixedTokenizer):
        raise ValueError("this tokenizer does not cut and pad text")
    ids, mask = call.component.encode_fixed(call.values["text"], int(call.params.get("length", 0)))
    yield Emit("tokens", torch.tensor(ids, dtype=torch.int64))
    yield Emit("mask", torch.tensor(mask, dtype=torch.int64))
