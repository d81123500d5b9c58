"""What the engine itself costs per work unit: null experts, wall time less the time inside their forwards.

    python benchmarks/engine_overhead.py [--json FILE]

Budgets: 50 us per unit at width 1, 10 us at width 32, and no more per unit with 10,000 requests queued than with one.
"""

from __future__ import annotations

import argparse
import gc
import json
import statistics
import time
from dataclasses import asdict, dataclass
from pathlib import Path

import torch

import omniflow
from omniflow.batcher import Limits
from omniflow.catalog import find_spec

REPEATS = 5
BUDGETS_US = {"width 1": 50.0, "width 32": 10.0}


@dataclass(frozen=True, slots=True, kw_only=True)
class Overhead:
    """Medians over the repeats: microseconds per unit outside and inside the experts, units, their mean width."""

    engine_us: float
    expert_us: float
    units: int
    width: float


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", help="where to write the figures")
    options = parser.parse_args()
    torch.set_num_threads(1)
    long = omniflow.compile(find_spec("null.speech"), outputs=["text"], params={"max_tokens": "400"})
    short = omniflow.compile(find_spec("null.speech"), outputs=["text"], params={"max_tokens": "4"})
    figures = {
        "width 1": measure(long, requests=1, running=1),
        "width 32": measure(long, requests=32, running=32),
        "1 queued": measure(short, requests=32 + 1, running=32),
        "1,000 queued": measure(short, requests=1_000, running=32),
        "10,000 queued": measure(short, requests=10_000, running=32),
    }
    for name, figure in figures.items():
        budget = f"   budget {BUDGETS_US[name]:.0f}" if name in BUDGETS_US else ""
        print(
            f"{name:<14} engine {figure.engine_us:6.1f} us a unit{budget:<13} (experts {figure.expert_us:6.1f} us, "
            f"{figure.units} units, mean width {figure.width:.1f})"
        )
    if options.json:
        body = {name: asdict(figure) for name, figure in figures.items()}
        Path(options.json).write_text(json.dumps(body, indent=1) + "\n", encoding="utf-8")


def measure(schedule: omniflow.Schedule, *, requests: int, running: int) -> Overhead:
    """Serves the requests and divides the time by the units."""
    repeats = [once(schedule, requests=requests, running=running) for _ in range(REPEATS if requests < 5_000 else 2)]
    return Overhead(
        engine_us=statistics.median(r.engine_us for r in repeats),
        expert_us=statistics.median(r.expert_us for r in repeats),
        units=repeats[0].units,
        width=statistics.median(r.width for r in repeats),
    )


def once(schedule: omniflow.Schedule, *, requests: int, running: int) -> Overhead:
    engine = omniflow.load(schedule, limits=Limits(running=running))
    ids = [engine.submit({"prompt": "Why is the sky blue?"}, seed=i, keep=False) for i in range(requests)]
    steps = 0
    gc.collect()
    gc.disable()
    start = time.perf_counter()
    while engine.step():
        steps += 1
    seconds = time.perf_counter() - start
    gc.enable()
    inside, units = 0.0, 0
    for i in ids:
        result = engine.result(i)
        assert result is not None
        assert result.state == "done", result.error
        for node in result.record["nodes"].values():
            inside += node["seconds"]
            units += sum(node["units"].values())
    return Overhead(
        engine_us=(seconds - inside) / units * 1e6, expert_us=inside / units * 1e6, units=units, width=units / steps
    )


if __name__ == "__main__":
    main()
