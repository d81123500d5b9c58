"""Rows of different requests that one forward can take together: those of equal shapes."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import TypeVar

R = TypeVar("R")
A = TypeVar("A")


def by_shape(rows: Sequence[R], key: Callable[[R], Hashable], run: Callable[[list[R]], Sequence[A]]) -> list[A]:
    """`run` once per group of rows with one key; answers in the order of the rows."""
    groups: dict[Hashable, list[int]] = {}
    for i, row in enumerate(rows):
        groups.setdefault(key(row), []).append(i)
    found: dict[int, A] = {}
    for members in groups.values():
        found.update(zip(members, run([rows[i] for i in members]), strict=True))
    return [found[i] for i in range(len(rows))]
