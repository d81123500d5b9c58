"""What `torch.compile` gives a decode step on a CPU, its warm-up counted, beside the native step and plain torch.

    python benchmarks/compiled_step.py                           bfloat16, one row, all 30 layers of SmolLM2-135M
    python benchmarks/compiled_step.py --dtype float32 --width 8 --forms eager,compile

Every form runs in a process of its own, the compiled ones twice on one folder for inductor's cache: what the first
start costs and what every later one costs. `pays after`: how many steps make up for that against the packed eager
step, in CPU time.
The step is written for the compiler: one function, fixed shapes, keys and values in place, one position per row.
`freeze` lets inductor pack the weights (oneDNN), `autotune` lets it also try kernels of its own.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from decoder import SMOLLM2_135M
from torch import Tensor

from omniflow.experts import lean
from omniflow.experts.lean.linear import prepare
from omniflow.roles import TokenRows

CONTEXT, STEPS = 128, 15
FORMS = ("native", "eager", "compile", "freeze", "autotune")
DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16}


def main() -> None:
    options = _options()
    if options.child:
        print(json.dumps(_child(options)))
        return
    report = {}
    print(f"{options.dtype}, {options.width} rows, {options.layers} layers, {options.threads} threads")
    for form in options.forms.split(","):
        with tempfile.TemporaryDirectory() as cache:
            first = _start(form, cache, options)
            again = _start(form, cache, options) if form not in ("native", "eager") and "ms" in first else None
        report[form] = {"first": first, "again": again}
        print(_line(form, first, again, report), flush=True)
    if options.json:
        Path(options.json).write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--dtype", default="bfloat16", choices=tuple(DTYPES))
    parser.add_argument("--width", type=int, default=1)
    parser.add_argument("--layers", type=int, default=30)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--forms", default="native,eager,compile,freeze", help=f"of {', '.join(FORMS)}")
    parser.add_argument("--limit", type=float, default=600.0, metavar="SECONDS", help="give up on a form")
    parser.add_argument("--json", help="where to write the figures")
    parser.add_argument("--child", help=argparse.SUPPRESS)
    return parser.parse_args()


def _start(form: str, cache: str, options: argparse.Namespace) -> dict[str, float]:
    """`warm`: seconds until the second step is done, weights made before; `ms` of a step after that."""
    sizes = [f"--{name}={vars(options)[name]}" for name in ("dtype", "width", "layers", "threads")]
    environment = {**os.environ, "TORCHINDUCTOR_CACHE_DIR": cache, "OMP_NUM_THREADS": str(options.threads)}
    command = [sys.executable, __file__, *sizes, f"--child={form}"]
    try:
        done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=options.limit)
    except subprocess.TimeoutExpired:
        return {"gave_up_after": options.limit}
    if done.returncode != 0:
        raise SystemExit(f"{form}: {done.stderr.strip().splitlines()[-1]}")
    found: dict[str, float] = json.loads(done.stdout.strip().splitlines()[-1])
    return found


def _line(
    form: str, first: dict[str, float], again: dict[str, float] | None, report: dict[str, dict[str, object]]
) -> str:
    if "ms" not in first:
        return f"{form:10} not done after {first['gave_up_after']:.0f} s"
    line = f"{form:10} {first['ms']:7.1f} ms a step ({first['cpu_ms']:.1f} of CPU), first start {first['warm']:.1f} s"
    if again is None or "ms" not in again:
        return f"{line} ({first['cpu_warm']:.1f} of CPU)"
    line += f" ({first['cpu_warm']:.1f} of CPU), later ones {again['warm']:.1f} s ({again['cpu_warm']:.1f})"
    eager = report.get("eager", {}).get("first")
    saved = eager["cpu_ms"] - first["cpu_ms"] if isinstance(eager, dict) else 0.0
    if saved <= 0:
        return f"{line}; never pays"
    first_steps, later = (found["cpu_warm"] * 1e3 / saved for found in (first, again))
    return f"{line}; pays after {first_steps:.0f} steps, later {later:.0f}"


def _child(options: argparse.Namespace) -> dict[str, float]:
    torch.set_num_threads(options.threads)
    config = lean.parse_config({**SMOLLM2_135M, "num_hidden_layers": options.layers}, where="shape")
    dtype = DTYPES[options.dtype]
    if options.child == "native":
        decoder = lean.random(config, 0, dtype=dtype, cache_tokens=(CONTEXT + 32) * options.width)
        opened = [decoder.open({}, max_positions=CONTEXT + 32) for _ in range(options.width)]
        live = [sequence for sequence in opened if sequence is not None]
        prompt, token = torch.ones(CONTEXT, dtype=torch.int64), torch.tensor([1])
        decoder.step([TokenRows(sequence=sequence, ids=prompt, wants_logits=False) for sequence in live])
        rows = [TokenRows(sequence=sequence, ids=token) for sequence in live]
        return _timed(lambda: decoder.step(rows), warm_up=2)
    with torch.inference_mode(options.child == "eager"), torch.no_grad():
        step = Step(config, options.width, dtype, packed=options.child == "eager")
        run: Callable[[Tensor, Tensor], Tensor] = step
        if options.child != "eager":
            import torch._inductor.config as inductor

            inductor.freezing = options.child in ("freeze", "autotune")
            run = torch.compile(step, fullgraph=True, mode="max-autotune" if options.child == "autotune" else "default")
        ids, position = torch.ones(options.width, dtype=torch.int64), torch.tensor([CONTEXT - 1])
        return _timed(lambda: run(ids, position), warm_up=2)


def _timed(run: Callable[[], object], *, warm_up: int) -> dict[str, float]:
    """`warm` and `ms` by the clock; `cpu_warm` (compilers that were started counted) and `cpu_ms` of all threads."""
    start, used = time.perf_counter(), sum(os.times()[:4])
    for _ in range(warm_up):
        run()
    warm, cpu_warm = time.perf_counter() - start, sum(os.times()[:4]) - used
    seconds, work = [], []
    for _ in range(STEPS):
        start, used = time.perf_counter(), time.process_time()
        run()
        seconds.append(time.perf_counter() - start)
        work.append(time.process_time() - used)
    middle = statistics.median(seconds) * 1e3
    return {"ms": middle, "cpu_ms": min(work) * 1e3, "warm": warm, "cpu_warm": cpu_warm}


class Step(torch.nn.Module):
    """One position of every row over `CONTEXT` cached ones; fused matrices."""

    def __init__(self, config: lean.LeanConfig, width: int, dtype: torch.dtype, *, packed: bool) -> None:
        super().__init__()
        self._config = config
        hidden, heads, head = config.hidden_size, config.num_heads, config.head_dim
        shapes = {
            "qkv": (head * (heads + 2 * config.num_kv_heads), hidden),
            "output": (hidden, heads * head),
            "gate_up": (2 * config.intermediate_size, hidden),
            "down": (hidden, config.intermediate_size),
        }
        self._layers: list[Any] = [
            {name: _linear(shape, dtype, packed=packed) for name, shape in shapes.items()}
            for _ in range(config.num_layers)
        ]
        self._head: Any = _linear((config.vocab_size, hidden), dtype, packed=packed)
        if not packed:  # inductor packs parameters of modules that it knows
            self._layers = [torch.nn.ModuleDict(layer) for layer in self._layers]
            self.modules_of_layers = torch.nn.ModuleList(self._layers)
        self.register_buffer("embed", torch.randn(config.vocab_size, hidden, dtype=dtype))
        self.register_buffer("norm", torch.ones(hidden, dtype=dtype))
        cached = (config.num_layers, 2, width, config.num_kv_heads, CONTEXT, head)
        self.register_buffer("cache", torch.zeros(cached, dtype=dtype))
        self.register_buffer("angles", torch.rand(CONTEXT, head // 2))

    def forward(self, ids: Tensor, position: Tensor) -> Tensor:
        """Logits [rows, V]. position: int64 [1], the same for all rows."""
        config = self._config
        x = self.embed[ids]
        angles = self.angles[position]
        cos, sin = angles.cos().to(x.dtype), angles.sin().to(x.dtype)
        seen = torch.arange(CONTEXT)[None] <= position
        for layer, cache in zip(self._layers, self.cache.unbind(0), strict=True):
            heads = layer["qkv"](self._normed(x)).view(len(ids), -1, config.head_dim)
            first, second = heads[:, : config.num_heads + config.num_kv_heads].chunk(2, dim=-1)
            rotated = torch.cat((first * cos - second * sin, second * cos + first * sin), dim=-1)
            query, key = rotated.split((config.num_heads, config.num_kv_heads), dim=1)
            cache[0].index_copy_(2, position, key[:, :, None])
            cache[1].index_copy_(2, position, heads[:, config.num_heads + config.num_kv_heads :, None])
            attended = F.scaled_dot_product_attention(
                query[:, :, None], cache[0], cache[1], attn_mask=seen, enable_gqa=True
            )
            x = x + layer["output"](attended.reshape(len(ids), -1))
            gate, up = layer["gate_up"](self._normed(x)).chunk(2, dim=-1)
            x = x + layer["down"](F.silu(gate) * up)
        logits: Tensor = self._head(self._normed(x))
        return logits

    def _normed(self, x: Tensor) -> Tensor:
        return F.rms_norm(x, self.norm.shape, self.norm, 1e-5)


def _linear(shape: tuple[int, int], dtype: torch.dtype, *, packed: bool) -> Any:
    weight = (torch.randn(shape) / shape[1] ** 0.5).to(dtype)
    if packed:
        return prepare(weight, None)
    layer = torch.nn.Linear(shape[1], shape[0], bias=False, dtype=dtype)
    layer.weight = torch.nn.Parameter(weight, requires_grad=False)
    return layer


if __name__ == "__main__":
    main()
