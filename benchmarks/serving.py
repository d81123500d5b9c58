"""Tokens per second of OmniFlow's engine beside other libraries: same weights and requests, alternating, medians.

    python benchmarks/serving.py                       trained SmolLM2-135M where it is installed, else random weights
    python benchmarks/serving.py --weights FOLDER      a Hugging Face model folder
    python benchmarks/serving.py --quick               one repeat, a quarter of the tokens
    python benchmarks/serving.py --dtypes bfloat16 --quantize int8
    python benchmarks/serving.py --only transformers --dtypes bfloat16 --workloads 8,32
    python benchmarks/serving.py --python vllm=ENV/bin/python    a library that is installed somewhere else

How to set the other libraries up is in benchmarks/README.md. Libraries: omniflow, transformers, vllm, llama_cpp,
openvino. `OMNIFLOW_PEERS` in the environment means `--python`, entries separated by commas.

Workloads: `single`, 64 ids in and 128 out; `8` and `32`, so many requests, one every 50 ms, 16 to 112 ids in and 32 to
96 out. Every library runs in a process of its own with `--threads` threads and is asked for ids, not for text. A static
batch begins when its last request has arrived; `at once` are the same requests without the waiting. Each request's ids
are compared with transformers' `generate`. `limit` is the roofline of this machine, measured in the same run: the least
time in which the weights can be read once per token of the longest answer and all rows be multiplied. A form that needs
more than `--patience` seconds is run once. With `--quantize`, transformers and vLLM stay in the dtype.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path

import decoder_roofline as roofline
import torch
from decoder import checkpoint
from serving_contestant import Absent, Contestant
from workload import Outcome, Request, arriving, single

from omniflow.experts.lean import LeanConfig, read_config

LIBRARIES = ("omniflow", "transformers", "vllm", "llama_cpp", "openvino")
REFERENCE = ("transformers", "one after another")
OURS = ("omniflow", "engine")
Runs = dict[tuple[str, str], list[Outcome]]


def main() -> None:
    options = _options()
    torch.set_num_threads(options.threads)
    machine = roofline.measure()
    print(f"{options.threads} threads; {roofline.show(machine)}")
    report: dict[str, object] = {
        "processor": platform.processor() or platform.machine(),
        "threads": options.threads,
        "machine": asdict(machine),
    }
    with checkpoint(options.weights) as folder:
        for dtype in options.dtypes.split(","):
            with _contestants(folder, dtype, options) as contestants:
                report[dtype] = _compare(contestants, read_config(folder), dtype, machine, options)
    if options.json:
        Path(options.json).write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--weights", help="a Hugging Face model folder")
    parser.add_argument("--dtypes", default="float32,bfloat16")
    parser.add_argument("--quantize", default="none", choices=("none", "int8", "int4"))
    parser.add_argument("--workloads", default="single,8,32")
    parser.add_argument("--only", type=_libraries, help="libraries besides OmniFlow, separated by commas")
    parser.add_argument("--python", action="append", default=[], metavar="LIBRARY=PYTHON")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--patience", type=float, default=20.0, metavar="SECONDS", help="longer forms run once")
    parser.add_argument("--quick", action="store_true", help="one repeat, a quarter of the tokens")
    parser.add_argument("--json", help="where to write the figures")
    return parser.parse_args()


def _libraries(text: str) -> list[str]:
    names = [name for name in text.split(",") if name]
    unknown = [name for name in names if name not in LIBRARIES]
    if unknown:
        raise argparse.ArgumentTypeError(f"no library is called {', '.join(unknown)}; there are {', '.join(LIBRARIES)}")
    return names


@contextmanager
def _contestants(folder: Path, dtype: str, options: argparse.Namespace) -> Iterator[list[Contestant]]:
    """Those that are installed; the others are named."""
    entries = [*os.environ.get("OMNIFLOW_PEERS", "").split(","), *options.python]
    pythons = dict(entry.split("=", 1) for entry in entries if entry)
    wanted = LIBRARIES if options.only is None else ("omniflow", *options.only)
    found: list[Contestant] = []
    for name in wanted:
        arguments = (str(folder), dtype, str(options.threads), options.quantize)
        try:
            python = pythons.get(name, sys.executable)
            found.append(Contestant(name, python=python, arguments=arguments, threads=options.threads))
        except Absent as reason:
            print(f"{name}: absent, {reason}")
    try:
        yield found
    finally:
        for contestant in found:
            contestant.close()


def _compare(
    contestants: Sequence[Contestant],
    config: LeanConfig,
    dtype: str,
    machine: roofline.Machine,
    options: argparse.Namespace,
) -> dict[str, object]:
    scale = 4 if options.quick else 1
    report: dict[str, object] = {contestant.name: contestant.version for contestant in contestants}
    _warm_up(contestants, config.vocab_size)
    for workload in options.workloads.split(","):
        requests = _requests(workload, config.vocab_size, scale)
        runs = _alternate(contestants, workload, requests, options)
        held = dtype if options.quantize == "none" else options.quantize
        limit = roofline.least_seconds(machine, config, held, requests)
        report[workload] = _table(held, workload, runs, sum(request.new for request in requests) / limit)
    return report


def _alternate(
    contestants: Sequence[Contestant], workload: str, requests: Sequence[Request], options: argparse.Namespace
) -> Runs:
    """Everybody once, then everybody again; what took longer than the patience sits the rest out."""
    runs: Runs = {}
    for _ in range(1 if options.quick else options.repeats):
        for contestant in contestants:
            for form in _forms(contestant, workload):
                found = runs.setdefault((contestant.name, form), [])
                if not found or found[0].seconds < options.patience:
                    found.append(contestant.run(form, requests))
                    print(f"  ... {workload} {contestant.name} {form} {found[-1].seconds:.1f} s", file=sys.stderr)
    return runs


def _requests(workload: str, vocab: int, scale: int) -> list[Request]:
    return single(vocab, scale) if workload == "single" else arriving(int(workload), vocab, scale)


def _forms(contestant: Contestant, workload: str) -> list[str]:
    """One request is no batch; 32 one after another only repeat what eight tell."""
    if workload == "single":
        return [form for form in contestant.forms if not form.startswith("static batch")]
    return [form for form in contestant.forms if form != "one after another" or workload == "8"]


def _warm_up(contestants: Sequence[Contestant], vocab: int) -> None:
    short = [Request(prompt=request.prompt, new=4, arrives=0.0) for request in arriving(2, vocab)]
    for contestant in contestants:
        for form in contestant.forms:
            contestant.run(form, short)


def _table(held: str, workload: str, runs: Runs, limit: float) -> dict[str, object]:
    rates = {key: statistics.median(outcome.rate for outcome in found) for key, found in runs.items()}
    reference = next((runs[key][0].ids for key in (REFERENCE, ("transformers", "static batch")) if key in runs), None)
    print(f"\n{held}, {workload}: new tokens per second, limit {limit:.0f}")
    rows: dict[str, object] = {}
    for key, rate in rates.items():
        ratio = "" if key == OURS or OURS not in rates else f"omniflow is {rates[OURS] / rate:.2f} times this"
        same = "" if reference is None else _same(runs[key][0].ids, reference)
        waits = _waits(runs[key])
        every = [outcome.rate for outcome in runs[key]]
        of = f"of {len(every)}"
        print(f"  {' '.join(key):32} {rate:7.1f} {of} {rate / limit:5.0%}  {ratio:32} {same:14} {waits}", flush=True)
        rows[" ".join(key)] = {"rate": rate, "rates": every, "limit": limit, "same_ids": same, "waits": waits}
    return rows


def _same(ids: Sequence[Sequence[int]], reference: Sequence[Sequence[int]]) -> str:
    equal = sum(list(a) == list(b) for a, b in zip(ids, reference, strict=True))
    return f"ids {equal}/{len(reference)}"


def _waits(found: Sequence[Outcome]) -> str:
    gaps = sorted(found[-1].gaps)
    if not gaps:
        return ""
    first, late = statistics.mean(found[-1].first), gaps[len(gaps) * 95 // 100]
    return f"first token {first:.2f} s, p95 gap {late:.3f} s"


if __name__ == "__main__":
    main()
