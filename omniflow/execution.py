"""Runs one batch: a single call of the expert, and where that fails row by row, so that only the guilty fails.

With a time limit per call, calls run in a thread of their own; one that does not answer is left behind with all that
it may still write to, and the rows go on without it.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from queue import Empty, SimpleQueue
from typing import Any, NamedTuple

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
PATIENCE = 10  # times its limit that a call may take until requests without a deadline stop waiting for what it holds


class Call:
    """A call of an expert, made in another thread. `is_lost` once it has been given up."""

    __slots__ = ("answer", "is_lost", "make")

    def __init__(self, make: Callable[[], Sequence[Result]]) -> None:
        self.make = make
        self.answer: SimpleQueue[Answer] = SimpleQueue()
        self.is_lost = False


class Lost(NamedTuple):
    """A call that has been given up and has not come back, with the units whose states it may touch.

    until: by `time.perf_counter`, when those without a deadline stop waiting for what its lanes hold; it has taken
    `seconds` then.
    """

    call: Call
    units: Sequence[Unit]
    until: float
    seconds: float

    def holds_cache_of(self, expert: Any) -> bool:
        """Whether its lanes may have room in that expert's cache."""
        return any(unit.lane.node.bound.expert is expert for unit in self.units)

    def is_waited_for(self, *, has_deadline: bool) -> bool:
        """Whether a request still waits for it to come back."""
        return has_deadline or time.perf_counter() < self.until


class Executor:
    """Calls experts. `lost` are calls that have not come back; `on_back` is called, in their thread, when one does."""

    def __init__(self, *, unit_seconds: float | None, faults: Faults, on_back: Callable[[], None]) -> None:
        self.unit_seconds = unit_seconds
        self.faults = faults
        self.on_back = on_back
        self.lost: list[Lost] = []
        self._inference = torch.inference_mode()  # of the engine's own thread; making one takes as long as a small op
        self._calls: SimpleQueue[Call] | None = None

    def run(self, units: Sequence[Unit]) -> Outcome:
        """One forward for all units; they share their key, hence their loop's kind and their expert."""
        if self.faults.on_nodes:
            self.faults.number(units)
        start = time.perf_counter()
        try:
            results = self._call(units)
        except Exception as error:  # noqa: BLE001  an expert's fault, whatever it is, belongs to the rows it was given
            results = [_bad(error, units[0])] if len(units) == 1 else [self._alone(unit) for unit in units]
        return Outcome(results, time.perf_counter() - start)

    def come_back(self) -> list[Unit]:
        """Units of lost calls that have come back since."""
        back = [lost for lost in self.lost if not lost.call.answer.empty()]
        if back:
            self.lost = [lost for lost in self.lost if lost not in back]
        return [unit for lost in back for unit in lost.units]

    def seconds_of_patience(self) -> float | None:
        """How long from now until somebody stops waiting for a lost call; None when nobody will."""
        now = time.perf_counter()
        return min((lost.until - now for lost in self.lost if lost.until > now), default=None)

    def _alone(self, unit: Unit) -> Result | BadResult:
        """The same unit without its neighbours; experts leave the states of rows untouched by a call that raises."""
        try:
            return self._call([unit])[0]
        except Exception as error:  # noqa: BLE001  as above
            return _bad(error, unit)

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
            results = self._call_within(Call(lambda: loop.execute(expert, units)), units, self.unit_seconds)
        if len(results) != len(units):
            raise ValueError(f"{len(results)} results for {len(units)} rows")
        return self.faults.spoil(units, results) if self.faults.on_nodes else results

    def _call_within(self, call: Call, units: Sequence[Unit], seconds: float) -> Sequence[Result]:
        if self._calls is None:
            self._calls = SimpleQueue()
            arguments = (self._calls, self.on_back)
            threading.Thread(target=_serve, args=arguments, name="omniflow-expert", daemon=True).start()
        self._calls.put(call)
        try:
            results, error = call.answer.get(timeout=seconds)
        except Empty:
            self._calls = None  # its thread is lost with the call
            call.is_lost = True
            most = PATIENCE * seconds
            self.lost.append(Lost(call, units, until=time.perf_counter() + most - seconds, seconds=most))
            for unit in units:
                unit.lane.num_stuck += 1
            raise Stuck(f"no answer within {seconds:g} s") from None
        if error is not None:
            raise error
        assert results is not None
        return results


def _serve(calls: SimpleQueue[Call], on_back: Callable[[], None]) -> None:
    """A thread that makes calls, until one of them has been given up: then it ends with it."""
    call = None
    while call is None or not call.is_lost:
        call = calls.get()
        try:
            with torch.inference_mode():
                call.answer.put((call.make(), None))
        except Exception as error:  # noqa: BLE001  handed to the engine's thread
            call.answer.put((None, error))
    on_back()


def _bad(error: Exception, unit: Unit) -> BadResult:
    """An encoder that raises a ValueError, or an IndexError for ids it does not know, was given the wrong values."""
    text = " ".join(str(error).split()) or "no message"
    is_of_values = unit.kind == "encoder_chunk" and isinstance(error, ValueError | IndexError)
    return BadResult(text if isinstance(error, Stuck) else f"{type(error).__name__}: {text}", is_of_values)
