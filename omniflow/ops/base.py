"""What an op is to the runtime: a function over what has come, and how it takes its inputs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from omniflow.channel import Window
from omniflow.loops.base import Done, Emit
from omniflow.rng import Source
from omniflow.values import Value


@dataclass(slots=True, kw_only=True)
class Call:
    """One call of an op.

    values: finished inputs (a tuple for variadic ports); windows: what came on streaming ports since the last call,
    cut at the same elements on all of them, none in a call that only tells the end; memory: the op's own, per item of
    an `each` node, else per request; rng: where an op that draws draws from; is_end: nothing comes after this call.
    goes_on: in a session, a loop behind goes on from the turn before and wants this turn's part alone.
    """

    values: Mapping[str, Value]
    windows: Mapping[str, Window]
    params: Mapping[str, Any]
    component: Any
    memory: Any
    is_end: bool
    rng: Source | None = None
    goes_on: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Op:
    """A row of the op table.

    pieces: ports taken as they come; items: ports taken item by item; all others are finished values. An op without
    `pieces` and `items` is called once. An op that yields `Done` needs no more of its inputs.
    """

    run: Callable[[Call], Iterable[Emit | Done]]
    memory: Callable[[], Any] | None = None
    pieces: frozenset[str] = frozenset()
    items: frozenset[str] = frozenset()
    variadic: frozenset[str] = frozenset()
    optional: frozenset[str] = frozenset()
