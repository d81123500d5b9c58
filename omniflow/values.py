"""Values on edges: text is `str`, json and scalars are plain Python, all else is a tensor without request axis."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from omniflow_compiler.schedule import PortType

Value = Any  # str, Tensor, a JSON value, or a list of those for a starred type


class Shared:
    """A value that is held by reference (`kv`): whoever keeps it counts, and the last one to let go frees it."""

    __slots__ = ()

    def hold(self) -> None:
        """One more holds it."""
        raise NotImplementedError

    def drop(self) -> None:
        """One holder less."""
        raise NotImplementedError


INTEGER_BASES = frozenset({"tokens", "codes"})


def is_starred(kind: PortType) -> bool:
    """Whether values of this type are sequences of items (`text[N*]`)."""
    return bool(kind.axes) and kind.axes[0].endswith("*")


def length(value: Value) -> int:
    """Elements along the leading axis; values without one count as a single element."""
    if isinstance(value, Tensor):
        return value.size(0) if value.dim() else 1
    return len(value) if isinstance(value, str) else 1


def cut(value: Value, start: int, stop: int) -> Value:
    """Elements `start .. stop` of a text or tensor."""
    if start == 0 and stop == length(value):
        return value
    return value[start:stop]


def concat(pieces: Sequence[Value], kind: PortType) -> Value:
    """The pieces of one item as one value. No pieces give the empty value of the type."""
    if len(pieces) == 1:
        return pieces[0]
    if not pieces:
        return empty(kind)
    if isinstance(pieces[0], str):
        return "".join(pieces)
    if isinstance(pieces[0], Tensor):
        return torch.cat(list(pieces))
    return list(pieces)


def empty(kind: PortType) -> Value:
    """A value of zero elements; axes whose size the type does not tell are zero as well."""
    if kind.base == "text":
        return ""
    if kind.base in ("json", "record", "scalar"):
        return None
    axes = kind.axes[1:] if is_starred(kind) else kind.axes
    sizes = [int(axis) if axis.isdigit() else 0 for axis in axes[1:]]
    return torch.zeros((0, *sizes), dtype=dtype_of(kind))


def dtype_of(kind: PortType) -> torch.dtype:
    """The torch dtype of a tensor type. Errors: ValueError for a dtype that torch does not have."""
    if kind.base in INTEGER_BASES:
        return torch.int64
    name = {"f32": "float32", "f16": "float16", "bf16": "bfloat16", "i64": "int64", "u8": "uint8"}.get(
        kind.dtype or "f32", kind.dtype or "float32"
    )
    dtype = torch.__dict__.get(name)
    if not isinstance(dtype, torch.dtype):
        raise ValueError(f"type {kind.text} has no torch dtype: {name}")
    return dtype
