"""Runs one batch: a single call of the expert, and where that fails row by row, so that only the guilty fails."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import NamedTuple

from omniflow.loops.base import BadResult, Result, Unit


class Outcome(NamedTuple):
    """A result (or BadResult) per unit, and how long all of them took together."""

    results: Sequence[Result | BadResult]
    seconds: float


def execute(units: Sequence[Unit]) -> Outcome:
    """One forward for all units; they share their key, hence their loop's kind and their expert."""
    start = time.perf_counter()
    bound = units[0].lane.node.bound
    try:
        results = bound.loop.execute(bound.expert, units)
        if len(results) != len(units):
            raise ValueError(f"{len(results)} results for {len(units)} rows")
    except Exception as error:  # noqa: BLE001  an expert's fault, whatever it is, belongs to the rows it was given
        results = [_bad(error)] if len(units) == 1 else [_alone(unit) for unit in units]
    return Outcome(results, time.perf_counter() - start)


def _alone(unit: Unit) -> Result | BadResult:
    """The same unit without its neighbours; experts leave the states of rows untouched by a call that raises."""
    bound = unit.lane.node.bound
    try:
        return bound.loop.execute(bound.expert, [unit])[0]
    except Exception as error:  # noqa: BLE001  as above
        return _bad(error)


def _bad(error: Exception) -> BadResult:
    text = " ".join(str(error).split()) or "no message"
    return BadResult(f"{type(error).__name__}: {text}")
