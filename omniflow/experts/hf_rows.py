"""Rows of different requests in one forward: grouped by shape, and kept from changing each other's last bits.

A matrix product or convolution of another height may round differently. Where a layer sees one vector per request (time
embeddings, modulation) and its products are not packed, its rows therefore run one after another on a CPU: little work,
and the batch changes no bit.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import Any, TypeVar

import torch
from torch import Tensor, nn

from omniflow.experts.packed import PackedLinear

R = TypeVar("R")
A = TypeVar("A")
_PRODUCTS = (PackedLinear, nn.Linear, nn.Conv1d, nn.Conv2d, nn.Conv3d)


def by_shape(rows: Sequence[R], key: Callable[[R], Hashable], run: Callable[[list[R]], Sequence[A]]) -> list[A]:
    """`run` once per group of rows with one key; answers in the order of the rows."""
    groups: dict[Hashable, list[int]] = {}
    for i, row in enumerate(rows):
        groups.setdefault(key(row), []).append(i)
    found: dict[int, A] = {}
    for members in groups.values():
        found.update(zip(members, run([rows[i] for i in members]), strict=True))
    return [found[i] for i in range(len(rows))]


class RowByRow(nn.Module):
    """A module that is called once per row of its first argument; tensors of that height are cut with it."""

    def __init__(self, inner: nn.Module) -> None:
        super().__init__()
        self.inner = inner

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """The rows' answers as one batch: a tensor, or a tuple of tensors and None."""
        height = len(args[0])
        if height == 1:
            return self.inner(*args, **kwargs)
        answers = [
            self.inner(*(_row(v, i, height) for v in args), **{k: _row(v, i, height) for k, v in kwargs.items()})
            for i in range(height)
        ]
        if isinstance(answers[0], Tensor):
            return torch.cat(answers)
        return tuple(torch.cat(part) if isinstance(part[0], Tensor) else None for part in zip(*answers, strict=True))


def _row(value: Any, i: int, height: int) -> Any:
    return value[i : i + 1] if isinstance(value, Tensor) and value.ndim and len(value) == height else value


def keep_rows_apart(module: nn.Module, names: Callable[[str], bool], device: torch.device) -> nn.Module:
    """On a CPU, runs what is not packed of the submodules with these names row by row; elsewhere nothing changes."""
    if device.type == "cpu":
        for name, _ in list(module.named_modules()):
            if names(name):
                _keep_apart(module, name)
    return module


def _keep_apart(module: nn.Module, name: str) -> None:
    """A submodule as a whole where none of its products is packed, else those of its parts that are not."""
    part = module.get_submodule(name)
    packed = {isinstance(layer, PackedLinear) for layer in part.modules() if isinstance(layer, _PRODUCTS)}
    if packed == {False}:
        module.set_submodule(name, RowByRow(part))
    elif False in packed:
        for child, _ in part.named_children():
            _keep_apart(module, f"{name}.{child}")


def decode_rows(rows: Tensor, decode: Callable[[Tensor], Tensor]) -> Tensor:
    """One forward for all rows, or on a CPU, where convolutions gain nothing from a batch, one for each."""
    if rows.device.type == "cpu":
        return torch.cat([decode(row) for row in rows.split(1)])
    return decode(rows)
