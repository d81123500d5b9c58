"""Runs one batch: a single call of the expert, and where that fails row by row, so that only the guilty fails.

With a time limit per call, calls run in a thread of their own; one that does not answer is left behind with all that
it may still write to, and the rows go on without it.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from queue import Empty, SimpleQueue
from typing import NamedTuple

import torch

from omniflow.faults import Faults
from omniflow.loops.base import BadResult, Result, Unit


class Outcome(NamedTuple):
    """A result (or BadResult) per unit, and how long all of them took together."""

    results: Sequence[Result | BadResult]
    seconds: float


class Stuck(Exception):
    """A call did not answer in time."""


Answer = tuple[Sequence[Result] | None, Exception | None]


class Executor:
    """Calls experts. `stuck` are calls that have not come back, with the units whose states they may touch."""

    def __init__(self, *, unit_seconds: float | None, faults: Faults) -> None:
        self.unit_seconds = unit_seconds
        self.faults = faults
        self.stuck: list[tuple[SimpleQueue[Answer], Sequence[Unit]]] = []
        self._inference = torch.inference_mode()  # of the engine's own thread; making one takes as long as a small op
        self._calls: SimpleQueue[tuple[Callable[[], Sequence[Result]], SimpleQueue[Answer]]] | None = None

    def run(self, units: Sequence[Unit]) -> Outcome:
        """One forward for all units; they share their key, hence their loop's kind and their expert."""
        if self.faults.on_nodes:
            self.faults.number(units)
        start = time.perf_counter()
        try:
            results = self._call(units)
        except Exception as error:  # noqa: BLE001  an expert's fault, whatever it is, belongs to the rows it was given
            results = [_bad(error)] if len(units) == 1 else [self._alone(unit) for unit in units]
        return Outcome(results, time.perf_counter() - start)

    def come_back(self) -> list[Unit]:
        """Units of stuck calls that have come back since."""
        back = [units for answer, units in self.stuck if not answer.empty()]
        if back:
            self.stuck = [(answer, units) for answer, units in self.stuck if answer.empty()]
        return [unit for units in back for unit in units]

    def _alone(self, unit: Unit) -> Result | BadResult:
        """The same unit without its neighbours; experts leave the states of rows untouched by a call that raises."""
        try:
            return self._call([unit])[0]
        except Exception as error:  # noqa: BLE001  as above
            return _bad(error)

    def _call(self, units: Sequence[Unit]) -> Sequence[Result | BadResult]:
        first = units[0]
        bound = first.lane.node.bound
        loop, expert = bound.loop, bound.expert if first.expert is None else first.expert
        if self.faults.on_nodes:
            self.faults.strike(units, self.unit_seconds)
        if self.unit_seconds is None:
            with self._inference:
                results = loop.execute(expert, units)
        else:
            results = self._call_within(lambda: loop.execute(expert, units), units, self.unit_seconds)
        if len(results) != len(units):
            raise ValueError(f"{len(results)} results for {len(units)} rows")
        return self.faults.spoil(units, results) if self.faults.on_nodes else results

    def _call_within(
        self, call: Callable[[], Sequence[Result]], units: Sequence[Unit], seconds: float
    ) -> Sequence[Result]:
        if self._calls is None:
            self._calls = SimpleQueue()
            threading.Thread(target=_serve, args=(self._calls,), name="omniflow-expert", daemon=True).start()
        answer: SimpleQueue[Answer] = SimpleQueue()
        self._calls.put((call, answer))
        try:
            results, error = answer.get(timeout=seconds)
        except Empty:
            self._calls = None  # its thread is lost with the call
            self.stuck.append((answer, units))
            for unit in units:
                unit.lane.num_stuck += 1
            raise Stuck(f"no answer within {seconds:g} s") from None
        if error is not None:
            raise error
        assert results is not None
        return results


def _serve(calls: SimpleQueue[tuple[Callable[[], Sequence[Result]], SimpleQueue[Answer]]]) -> None:
    while True:
        call, answer = calls.get()
        try:
            with torch.inference_mode():
                answer.put((call(), None))
        except Exception as error:  # noqa: BLE001  handed to the engine's thread
            answer.put((None, error))


def _bad(error: Exception) -> BadResult:
    text = " ".join(str(error).split()) or "no message"
    return BadResult(text if isinstance(error, Stuck) else f"{type(error).__name__}: {text}")
