"""Runs a program in every mode and says whether each gave the same answer as one request after another."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from omniflow.batcher import Limits
from omniflow.request import Result, State
from omniflow.verification.cases import Case
from omniflow.verification.compare import BITS, Comparison, compare_outputs
from omniflow.verification.modes import BASELINE, MODES, Mode, Outcome
from omniflow.verification.quantized import SEQUENCES, Loss, losses
from omniflow.verification.tolerance import tolerances
from omniflow_compiler.schedule import Schedule

EXACT: Mapping[str, float] = {}  # nothing but equal bits will do


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One mode's verdict: how it was compared, the largest difference, and the first problem if there is one."""

    mode: str
    requests: int
    comparison: str
    difference: float
    tolerance: float
    problem: str

    @property
    def holds(self) -> bool:
        return not self.problem


def verify(
    schedule: Schedule,
    cases: Sequence[Case],
    *,
    pruned: Callable[[str], Schedule | None],
    batch_invariant: bool = False,
    limits: Limits | None = None,
) -> Iterator[Row]:
    """A row per mode, as soon as it is known. `pruned` compiles the same program for one output alone (None when it
    cannot, as for a schedule without its sources). `batch_invariant` makes every mode owe every bit.
    """
    limits = replace(limits or Limits(), batch_invariant=batch_invariant)
    tolerance = EXACT if batch_invariant else tolerances(schedule)
    baseline = BASELINE.run(schedule, cases, limits)
    yield _row(BASELINE, baseline, baseline, EXACT)
    if any(result is None or result.state != State.DONE for result in baseline):
        return
    for mode in MODES:
        if mode.fits is None or mode.fits(schedule):
            expected = mode.baseline(schedule, cases, limits) if mode.baseline is not None else baseline
            allowed = EXACT if mode.owes_bits(schedule) else tolerance
            yield _row(mode, expected, mode.run(schedule, cases, limits), allowed)
    for output in schedule.outputs:
        part = pruned(output.name) if len(schedule.outputs) > 1 else None
        if part is not None:
            mode = Mode(name=f"only {output.name}", run=BASELINE.run, is_exact=True)
            yield _row(mode, [_only(r, output.name) for r in baseline], mode.run(part, cases, limits), EXACT)
    yield from map(_loss_row, losses(schedule))


def _loss_row(loss: Loss) -> Row:
    holds = loss.nats <= loss.allowed
    return Row(
        mode=f"{loss.expert} in {loss.form}",
        requests=SEQUENCES,
        comparison="nats per token",
        difference=loss.nats,
        tolerance=loss.allowed,
        problem="" if holds else f"it loses {loss.nats:.3g} nats per token, the card allows {loss.allowed:.3g}",
    )


def _only(result: Result | None, output: str) -> Result | None:
    return None if result is None else replace(result, outputs={output: result.outputs[output]})


def _row(mode: Mode, expected: Outcome, found: Outcome, allowed: Mapping[str, float]) -> Row:
    """allowed: the largest difference by output; of those that it leaves out, none."""
    comparisons: list[Comparison] = []
    problem = ""
    compared = 0
    for index, (wanted, got) in enumerate(zip(expected, found, strict=True)):
        if got is None or wanted is None:
            continue
        compared += 1
        ended = next((result for result in (wanted, got) if result.state != State.DONE), None)
        if ended is not None:
            problem = problem or f"request {index} ended as {ended.state}: {ended.error or 'no reason given'}"
            continue
        for comparison in compare_outputs(wanted.outputs, got.outputs):
            comparisons.append(comparison)
            if not comparison.holds(allowed.get(comparison.output, 0.0)) and not problem:
                how = f"{comparison.kind} {comparison.difference:.3g}"
                problem = f"request {index}: {comparison.output} differs ({how})"
    worst = max(comparisons, key=lambda c: (_excess(c, allowed), c.difference, c.kind == BITS), default=None)
    return Row(
        mode=mode.name,
        requests=compared,
        comparison=worst.kind if worst is not None else "-",
        difference=worst.difference if worst is not None else 0.0,
        tolerance=0.0 if worst is None else allowed.get(worst.output, 0.0),
        problem=problem,
    )


def _excess(comparison: Comparison, allowed: Mapping[str, float]) -> float:
    """How much more a difference is than is allowed; 0 when it is not more."""
    return max(0.0, comparison.difference - allowed.get(comparison.output, 0.0))
