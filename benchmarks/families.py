"""Real architectures at random weights, beside the libraries they come from: requests a second and time to first sound.

    python benchmarks/families.py [--families csm,wan] [--sizes tiny,mid] [--repeats 3] [--threads N] [--json FILE]

Both sides load the same checkpoint and answer the same requests, alternating, with all cores unless --threads says
otherwise. The peer serves one request after another, as its `generate` or pipeline does; OmniFlow gets all requests at
once. Figures are medians. Gates: twice the requests a second at 8, the first sound five times earlier at 1. Where the
peer is so close to what the machine can do that nobody could be twice as fast with the same products, the line says how
many times would be the end.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from families_contests import CONTESTS, Contest
from families_operations import operations
from families_sizes import SIZES
from product_rate import product_rate

COUNTS = (1, 8)
FASTER, EARLIER = 2.0, 5.0


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--families", default=",".join(CONTESTS))
    parser.add_argument("--sizes", default="tiny,mid")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--threads", type=int, default=torch.get_num_threads(), help="that both sides compute with")
    parser.add_argument("--json", help="where to write the figures")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    rate = product_rate()
    print(f"{options.threads} threads, products at up to {rate / 1e9:.0f} billion operations a second", flush=True)
    report: dict[str, Any] = {"threads": options.threads, "product_rate": rate}
    for name in options.families.split(","):
        for size in options.sizes.split(","):
            with tempfile.TemporaryDirectory() as folder:
                contest = CONTESTS[name](Path(folder), SIZES[name][size])
                report[f"{name}.{size}"] = compare(f"{name} {size}", contest, options.repeats, rate)
    if options.json:
        Path(options.json).write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")


@dataclass(frozen=True, slots=True, kw_only=True)
class Served:
    """Seconds for all requests, and until the first sound of the first one (0 where nothing sounds)."""

    total: float
    first_audio: float


def compare(name: str, contest: Contest, repeats: int, rate: float) -> dict[str, Any]:
    """Both sides at each count, alternating. rate: operations a second that the machine can do."""
    warm_up(contest)
    least = operations(lambda: contest.peer(0)) / rate
    found: dict[str, Any] = {"least_seconds": least}
    for count in COUNTS:
        ours: list[Served] = []
        theirs: list[Served] = []
        for _ in range(repeats):
            ours.append(serve_omniflow(contest, count))
            theirs.append(serve_peer(contest, count))
        found[str(count)] = judge(name, contest, count, median(ours), median(theirs), least)
    return found


def judge(name: str, contest: Contest, count: int, ours: Served, theirs: Served, least: float) -> dict[str, Any]:
    """Prints both sides of a count and what the gates say; gives the figures. least: seconds of a peer's products."""
    faster = theirs.total / ours.total
    line = f"{name:<18}{count} requests: {count / ours.total:6.2f} a second against {count / theirs.total:6.2f}"
    line += f" ({faster:.1f} times)"
    gates = {"faster": faster >= FASTER} if count > 1 else {}
    figures: dict[str, Any] = {"omniflow": asdict(ours), "peer": asdict(theirs), "faster": faster}
    if contest.speaks:
        earlier = figures["earlier"] = theirs.first_audio / ours.first_audio
        line += f"; first sound {ours.first_audio * 1e3:.0f} ms against {theirs.first_audio * 1e3:.0f} ms"
        line += f" ({earlier:.1f} times earlier)"
        gates |= {"earlier": earlier >= EARLIER} if count == 1 else {}
    missed = [gate for gate, holds in gates.items() if not holds]
    print(line + (f"  MISSED: {', '.join(missed)}" if missed else ""), flush=True)
    ends_at = figures["faster_at_most"] = theirs.total / (count * least)
    if "faster" in missed:
        print(f"{'':<18}the products alone would be {ends_at:.1f} times as fast", flush=True)
    return {**figures, "gates": gates}


def warm_up(contest: Contest) -> None:
    """One request on each side. Errors: SystemExit when they did not make the same amount."""
    result = contest.engine.run(contest.inputs(0), seed=0, params=contest.params)
    if result.state != "done":
        raise SystemExit(f"{contest.engine.schedule.program}: {result.error}")
    mine, its = result.outputs[contest.output], contest.peer(0)
    if mine.shape != its.shape:
        raise SystemExit(f"{contest.engine.schedule.program}: {list(mine.shape)} against {list(its.shape)} of the peer")


def median(found: Sequence[Served]) -> Served:
    return Served(
        total=statistics.median(s.total for s in found), first_audio=statistics.median(s.first_audio for s in found)
    )


def serve_omniflow(contest: Contest, count: int) -> Served:
    """All requests at once, before cold caches."""
    engine = contest.engine
    engine.bound.stores.drop()
    start = time.perf_counter()
    ids = [engine.submit(contest.inputs(i), seed=i, params=contest.params) for i in range(count)]
    while not engine.is_idle:
        engine.step()
    total = time.perf_counter() - start
    results = [engine.result(i) for i in ids]
    for result in results:
        assert result is not None
        assert result.state == "done", result.error
    first = results[0].record["time_to_first_audio"] if contest.speaks else 0.0  # type: ignore[union-attr]
    return Served(total=total, first_audio=first)


def serve_peer(contest: Contest, count: int) -> Served:
    """A library gives a request's sound when the request is done."""
    start = time.perf_counter()
    first = 0.0
    for i in range(count):
        contest.peer(i)
        first = first or time.perf_counter() - start
    return Served(total=time.perf_counter() - start, first_audio=first if contest.speaks else 0.0)


if __name__ == "__main__":
    main()
