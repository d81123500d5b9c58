"""Measures what units cost on this machine: requests alone, then together, with the experts as they are."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import median
from typing import Any

from omniflow.engine import Engine
from omniflow.loading import load
from omniflow.request import State
from omniflow.trace import UnitEvent
from omniflow_compiler.schedule import Schedule

Key = tuple[str, str]  # component, kind of unit


class CalibrationError(Exception):
    """A request of the measurement did not go through; the message is the request's."""


@dataclass(slots=True, kw_only=True)
class Timing:
    """One kind of unit on one component: seconds of its batches by width, while a request ran alone and of all."""

    alone: dict[int, list[float]] = field(default_factory=dict)
    batches: dict[int, list[float]] = field(default_factory=dict)

    @property
    def units(self) -> int:
        """Units that were measured while a request ran alone."""
        return sum(width * len(seconds) for width, seconds in self.alone.items())

    @property
    def unit_seconds(self) -> float:
        """Seconds of one unit of a request that runs alone; medians, so that a hiccup of the machine counts little."""
        return sum(median(seconds) * len(seconds) for seconds in self.alone.values()) / self.units

    @property
    def widths(self) -> dict[int, float]:
        """Seconds of one unit in a batch of that width: the median over batches."""
        return {width: median(seconds) / width for width, seconds in sorted(self.batches.items())}


def measure(schedule: Schedule, cases: Sequence[tuple[Mapping[str, Any], int]]) -> dict[Key, Timing]:
    """What units cost, by component and kind. cases: inputs and a seed each; the first is run once more before, unseen.

    Errors: CalibrationError, BindError, InputError.
    """
    engine = load(schedule, trace=True)
    found: dict[Key, Timing] = {}
    _run(engine, cases[:1])
    for case in cases:
        for key, width, seconds in _batches(_run(engine, [case])):
            timing = found.setdefault(key, Timing())
            timing.alone.setdefault(width, []).append(seconds)
            timing.batches.setdefault(width, []).append(seconds)
    for key, width, seconds in _batches(_run(engine, cases)):
        if key in found:
            found[key].batches.setdefault(width, []).append(seconds)
    return found


def _run(engine: Engine, cases: Sequence[tuple[Mapping[str, Any], int]]) -> list[UnitEvent]:
    """The units of requests that run together."""
    assert engine.trace is not None
    first = len(engine.trace.units)
    ids = [engine.submit(inputs, seed=seed, keep=False) for inputs, seed in cases]
    while not engine.is_idle:
        engine.step()
    for result in map(engine.result, ids):
        if result is not None and result.state is not State.DONE:
            raise CalibrationError(result.error or f"a request was {result.state}")
    return engine.trace.units[first:]


def _batches(units: Iterable[UnitEvent]) -> list[tuple[Key, int, float]]:
    """Each batch of an expert once: its key, width and seconds."""
    seen = {
        (unit.start, unit.expert, unit.kind): (unit.width, unit.seconds)
        for unit in units
        if unit.expert and unit.kind != "op"
    }
    return [((expert, kind), width, seconds) for (_, expert, kind), (width, seconds) in seen.items()]
