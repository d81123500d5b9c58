"""Expressions of a schedule that only a request can answer: token bounds over what other loops gave, and `when`."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

from omniflow_compiler.expressions import Expression, ExpressionError, Value
from omniflow_compiler.schedule import Node, Schedule

MOST_TOKENS = "max_tokens"


def most_tokens(node: Node, nodes: Mapping[str, Node], params: Callable[[Node], Mapping[str, Any]]) -> int:
    """The largest value that a node's token bound can take: every loop it reads runs to its own bound.

    Errors: ValueError for an expression without a value.
    """
    value = params(node).get(MOST_TOKENS, 0)
    if not isinstance(value, str):
        return int(value)
    names: dict[str, Value] = {}
    for name, port in node.lengths.items():
        source = nodes[port.rpartition(".")[0]]
        names[name] = most_tokens(source, nodes, params)
    return evaluate(value, names)


def evaluate(text: str, names: Mapping[str, Value]) -> int:
    """A bound's value, rounded up, never below 0. Errors: ValueError."""
    try:
        value = Expression(text).evaluate(names)
    except ExpressionError as error:
        raise ValueError(f"{MOST_TOKENS} `{text}`: {error}") from None
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise ValueError(f"{MOST_TOKENS} `{text}` is no number")
    return max(math.ceil(value), 0)


def is_on(node: Node, schedule: Schedule, inputs: Mapping[str, Any]) -> bool:
    """Whether a node's `when` holds for these inputs. Errors: ValueError."""
    if node.when is None:
        return True
    names: dict[str, Value] = {f"inputs.{name}": value for name, value in inputs.items() if is_plain(value)}
    names |= {f"params.{name}": value for name, value in schedule.params.items() if is_plain(value)}
    try:
        return bool(Expression(node.when).evaluate(names))
    except ExpressionError as error:
        raise ValueError(f"{node.place}: when `{node.when}`: {error}") from None


def is_plain(value: Any) -> bool:
    """Whether expressions can read it."""
    return value is None or isinstance(value, str | int | float | bool)
