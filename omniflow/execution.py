"""Runs one batch: a single call of the expert, and where that fails row by row, so that only the guilty fails."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any, NamedTuple

from omniflow.loops.base import BadResult, Loop, Result, Unit


class Outcome(NamedTuple):
    """A result (or BadResult) per unit, and how long all of them took together."""

    results: Sequence[Result | BadResult]
    seconds: float


def execute(units: Sequence[Unit]) -> Outcome:
    """One forward for all units; they share their key, hence their loop's kind and their expert."""
    start = time.perf_counter()
    loop, expert = _runner(units[0])
    try:
        results = loop.execute(expert, units)
        if len(results) != len(units):
            raise ValueError(f"{len(results)} results for {len(units)} rows")
    except Exception as error:  # noqa: BLE001  an expert's fault, whatever it is, belongs to the rows it was given
        results = [_bad(error)] if len(units) == 1 else [_alone(unit) for unit in units]
    return Outcome(results, time.perf_counter() - start)


def _runner(unit: Unit) -> tuple[Loop[Any], Any]:
    """Who executes a unit, on which expert."""
    bound = unit.lane.node.bound
    return bound.loop, bound.expert if unit.expert is None else unit.expert


def _alone(unit: Unit) -> Result | BadResult:
    """The same unit without its neighbours; experts leave the states of rows untouched by a call that raises."""
    loop, expert = _runner(unit)
    try:
        return loop.execute(expert, [unit])[0]
    except Exception as error:  # noqa: BLE001  as above
        return _bad(error)


def _bad(error: Exception) -> BadResult:
    text = " ".join(str(error).split()) or "no message"
    return BadResult(f"{type(error).__name__}: {text}")
