"""What the engine itself costs per work unit: null experts, CPU time less the time inside their calls.

    python benchmarks/engine_overhead.py [--json FILE]

CPU time of the engine's thread, so that other load on the machine does not count. `experts` is what passes inside
`expert.step` and inside ops, `loop` the rest of `execute` (building rows, choosing tokens), `engine` all other things:
collecting, batching, folding, channels, outlets, and starting and ending the requests. What the stopwatches themselves
cost is measured first and taken off. The budget is for engine and loop together: 50 us per unit at
width 1, 10 us at width 32, and no more per unit with 10,000 requests queued than with one.
"""

from __future__ import annotations

import argparse
import gc
import json
import statistics
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import torch

import omniflow
from omniflow.batcher import Limits
from omniflow.catalog import find_spec

REPEATS = 5
BUDGETS_US = {"width 1": 50.0, "width 32": 10.0}


@dataclass(frozen=True, slots=True, kw_only=True)
class Overhead:
    """Medians over the repeats: microseconds of CPU per unit, units, their mean number per batch."""

    engine_us: float
    loop_us: float
    expert_us: float
    units: int
    width: float


class Stopwatch:
    """CPU seconds of this thread inside wrapped calls, and how many calls that were."""

    def __init__(self) -> None:
        self.seconds = 0.0
        self.calls = 0

    def around(self, call: Callable[..., Any]) -> Callable[..., Any]:
        def timed(*args: Any, **kwargs: Any) -> Any:
            self.calls += 1
            start = time.thread_time()
            try:
                return call(*args, **kwargs)
            finally:
                self.seconds += time.thread_time() - start

        return timed


@dataclass(frozen=True, slots=True, kw_only=True)
class Clock:
    """What a use of a stopwatch costs, in seconds: within what it measures, and around it."""

    within: float
    around: float


def time_clock(calls: int = 20_000) -> Clock:
    """Measures calls that do nothing."""
    watch = Stopwatch()
    timed, plain = watch.around(lambda unit: unit), (lambda unit: unit)
    start = time.thread_time()
    for i in range(calls):
        plain(i)
    untimed = time.thread_time() - start
    start = time.thread_time()
    for i in range(calls):
        timed(i)
    seconds = time.thread_time() - start
    within = watch.seconds / calls
    return Clock(within=within, around=(seconds - untimed) / calls - within)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", help="where to write the figures")
    options = parser.parse_args()
    torch.set_num_threads(1)
    long = omniflow.compile(find_spec("null.speech"), outputs=["text"], params={"max_tokens": "400"})
    short = omniflow.compile(find_spec("null.speech"), outputs=["text"], params={"max_tokens": "4"})
    figures: dict[str, Overhead] = {}
    clock = time_clock()
    for name, schedule, requests, running in (
        ("width 1", long, 1, 1),
        ("width 32", long, 32, 32),
        ("1 queued", short, 32 + 1, 32),
        ("1,000 queued", short, 1_000, 32),
        ("10,000 queued", short, 10_000, 32),
    ):
        figure = figures[name] = measure(schedule, clock, requests=requests, running=running)
        budget = f"budget {BUDGETS_US[name]:.0f}" if name in BUDGETS_US else ""
        print(
            f"{name:<14} engine {figure.engine_us:5.1f} + loop {figure.loop_us:5.1f} us a unit  {budget:<10} "
            f"(experts {figure.expert_us:5.1f} us, {figure.units} units, {figure.width:.1f} a batch)",
            flush=True,
        )
    if options.json:
        body = {name: asdict(figure) for name, figure in figures.items()}
        Path(options.json).write_text(json.dumps(body, indent=1) + "\n", encoding="utf-8")


def measure(schedule: omniflow.Schedule, clock: Clock, *, requests: int, running: int) -> Overhead:
    """Serves the requests and divides the time by the units."""
    repeats = [
        once(schedule, clock, requests=requests, running=running) for _ in range(REPEATS if requests < 5_000 else 2)
    ]
    return Overhead(
        engine_us=statistics.median(r.engine_us for r in repeats),
        loop_us=statistics.median(r.loop_us for r in repeats),
        expert_us=statistics.median(r.expert_us for r in repeats),
        units=repeats[0].units,
        width=statistics.median(r.width for r in repeats),
    )


def once(schedule: omniflow.Schedule, clock: Clock, *, requests: int, running: int) -> Overhead:
    engine = omniflow.load(schedule, limits=Limits(running=running))
    experts, batches = Stopwatch(), Stopwatch()
    time_experts(engine, experts, batches)
    ids = [engine.submit({"prompt": "Why is the sky blue?"}, seed=i, keep=False) for i in range(requests)]
    steps = 0
    gc.collect()
    gc.disable()
    start = time.thread_time()
    while engine.step():
        steps += 1
    seconds = time.thread_time() - start
    gc.enable()
    units = 0
    for i in ids:
        result = engine.result(i)
        assert result is not None
        assert result.state == "done", result.error
        units += sum(sum(node["units"].values()) for node in result.record["nodes"].values())
    engine_seconds = seconds - batches.seconds - batches.calls * clock.around
    loop_seconds = batches.seconds - experts.seconds - batches.calls * clock.within - experts.calls * clock.around
    return Overhead(
        engine_us=engine_seconds / units * 1e6,
        loop_us=loop_seconds / units * 1e6,
        expert_us=(experts.seconds - experts.calls * clock.within) / units * 1e6,
        units=units,
        width=units / steps,
    )


def time_experts(engine: omniflow.Engine, experts: Stopwatch, batches: Stopwatch) -> None:
    """Puts stopwatches around the calls of this engine's experts and ops, and around its batches."""
    engine.executor.run = batches.around(engine.executor.run)  # type: ignore[method-assign]
    for node in engine.bound.nodes:
        if node.spec.kind == "op":
            loop: Any = node.loop
            loop.op = replace(loop.op, run=Listed(loop.op.run, experts))
        else:
            node.expert.step = experts.around(type(node.expert).step.__get__(node.expert))


class Listed:
    """An op whose pieces are all made within the stopwatch, although it gives them one by one."""

    def __init__(self, run: Callable[..., Any], watch: Stopwatch) -> None:
        self._run = run
        self._watch = watch

    def __call__(self, call: Any) -> Any:
        return self._watch.around(lambda: list(self._run(call)))()


if __name__ == "__main__":
    main()
