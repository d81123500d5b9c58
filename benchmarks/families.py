"""Real architectures at random weights, beside the libraries they come from: requests a second and time to first sound.

    python benchmarks/families.py [--families qwen2_5_omni,qwen3_omni,flux,wan] [--repeats 3] [--json FILE]

Both sides load the same checkpoint and answer the same requests, alternating. The peer serves one request after
another, as its `generate` or pipeline does; OmniFlow gets all requests at once. Figures are medians.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import omniflow
from tests.parity import diffusion
from tests.parity.flux import reference as flux
from tests.parity.qwen2_5_omni import reference as qwen2_5
from tests.parity.qwen2_5_omni import running as run_qwen2_5
from tests.parity.qwen3_omni import reference as qwen3
from tests.parity.qwen3_omni import running as run_qwen3
from tests.parity.wan import reference as wan

COUNTS = (1, 8)
TEXT_LENGTHS = {"flux/image": flux.T5_LENGTH, "wan/video": wan.TEXT_LENGTH}


@dataclass(frozen=True, slots=True, kw_only=True)
class Contest:
    """One family: how the peer answers one request, how an engine is made, and a request's inputs and params."""

    peer: Callable[[int], None]
    engine: Callable[[], omniflow.Engine]
    inputs: Callable[[int], Mapping[str, Any]]
    params: Mapping[str, Any]
    speaks: bool


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--families", default=",".join(CONTESTS))
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--json", help="where to write the figures")
    options = parser.parse_args()
    torch.set_num_threads(1)
    report: dict[str, Any] = {}
    for name in options.families.split(","):
        with tempfile.TemporaryDirectory() as folder:
            report[name] = compare(name, CONTESTS[name](Path(folder)), options.repeats)
    if options.json:
        Path(options.json).write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")


@dataclass(frozen=True, slots=True, kw_only=True)
class Served:
    """Seconds for all requests, and until the first sound of the first one (0 where nothing sounds)."""

    total: float
    first_audio: float


def compare(name: str, contest: Contest, repeats: int) -> dict[str, Any]:
    """Both sides at each count, alternating."""
    serve_omniflow(contest, 1)
    contest.peer(0)
    found: dict[str, Any] = {}
    for count in COUNTS:
        ours: list[Served] = []
        theirs: list[Served] = []
        for _ in range(repeats):
            ours.append(serve_omniflow(contest, count))
            theirs.append(serve_peer(contest, count))
        mine, its = median(ours), median(theirs)
        line = f"{name:<14}{count} requests: {count / mine.total:6.2f} a second against {count / its.total:6.2f}"
        line += f" ({its.total / mine.total:.1f} times)"
        if contest.speaks:
            line += f"; first sound {mine.first_audio * 1e3:.0f} ms against {its.first_audio * 1e3:.0f} ms"
            line += f" ({its.first_audio / mine.first_audio:.1f} times earlier)"
        print(line, flush=True)
        found[str(count)] = {"omniflow": asdict(mine), "peer": asdict(its)}
    return found


def median(found: Sequence[Served]) -> Served:
    return Served(
        total=statistics.median(s.total for s in found), first_audio=statistics.median(s.first_audio for s in found)
    )


def serve_omniflow(contest: Contest, count: int) -> Served:
    engine = contest.engine()
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


def qwen2_5_omni(folder: Path) -> Contest:
    model = qwen2_5.build(folder, 0)
    case = qwen2_5.cases()["text"]
    return Contest(
        peer=lambda i: qwen2_5.record(model, case, seed=i) and None,
        engine=lambda: run_qwen2_5.engine(folder),
        inputs=lambda _: run_qwen2_5.inputs(case),
        params=run_qwen2_5.params(case),
        speaks=True,
    )


def qwen3_omni(folder: Path) -> Contest:
    model = qwen3.build(folder, 0)
    case = qwen3.cases()["text"]
    return Contest(
        peer=lambda i: qwen3.record(model, case, seed=i) and None,
        engine=lambda: run_qwen3.engine(folder),
        inputs=lambda _: run_qwen3.inputs(case),
        params=run_qwen3.params(case),
        speaks=True,
    )


def painted(family: Any, name: str, folder: Path, sizes: Mapping[str, int]) -> Contest:
    pipeline = family.build(folder, 0)
    schedule = diffusion.program(folder, name, text_length=TEXT_LENGTHS[name])
    steps = next(int(node.attributes["steps"]) for node in schedule.nodes if "steps" in node.attributes)
    prompts = diffusion.PROMPTS
    return Contest(
        peer=lambda i: family.run(pipeline, prompts[i % len(prompts)], seed=i, num_inference_steps=steps) and None,
        engine=lambda: omniflow.load(schedule),
        inputs=lambda i: {"prompt": prompts[i % len(prompts)], **sizes},
        params={},
        speaks=False,
    )


CONTESTS: Mapping[str, Callable[[Path], Contest]] = {
    "qwen2_5_omni": qwen2_5_omni,
    "qwen3_omni": qwen3_omni,
    "flux": lambda folder: painted(flux, "flux/image", folder, {"height": 32, "width": 32}),
    "wan": lambda folder: painted(wan, "wan/video", folder, {"height": 32, "width": 32, "frames": 5}),
}


if __name__ == "__main__":
    main()
