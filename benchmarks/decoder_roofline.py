"""What this machine could do at best: bytes read per second, multiplications per second, and a step's share of them."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from product_rate import product_rate
from workload import Request

from omniflow.experts.lean import LeanConfig

LAYER_BYTES = {"float32": 4.0, "bfloat16": 2.0, "int8": 1.0, "int4": 0.5 + 4 / 32}  # per weight; int4: with its groups
HEAD_BYTES = {**LAYER_BYTES, "int4": 1.0}
CACHE_BYTES = {"float32": 4, "bfloat16": 2, "int8": 2, "int4": 2}


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine:
    """bandwidth: bytes read per second; rates: floating-point operations per second of a large product by dtype."""

    bandwidth: float
    rates: dict[str, float]


@dataclass(frozen=True, slots=True, kw_only=True)
class Limit:
    """The least a step can take, and the two bounds that it is the larger of."""

    bytes_read: int
    operations: int
    memory_seconds: float
    compute_seconds: float

    @property
    def seconds(self) -> float:
        return max(self.memory_seconds, self.compute_seconds)


def measure() -> Machine:
    """Best of several runs: sums over half a gigabyte, and square products of 1,536. int4 is multiplied as int8.

    float32 counts as fast as packed layers are where these are faster: that is what the decoder runs.
    """
    big = torch.ones(128 * 2**20)
    bandwidth = big.numel() * 4 / _best(lambda: big.sum(), 7)
    rates = {}
    for dtype in (torch.float32, torch.bfloat16):
        a = torch.randn(1536, 1536).to(dtype)
        rates[str(dtype).removeprefix("torch.")] = 2 * 1536**3 / _best(lambda a=a: a @ a, 7)
    rates["float32"] = max(rates["float32"], product_rate())
    whole = torch.randint(-127, 128, (1536, 1536), dtype=torch.int8)
    rates["int8"] = 2 * 1536**3 / _best(lambda: torch._int_mm(whole, whole), 7)
    rates["int4"] = rates["int8"]
    return Machine(bandwidth=bandwidth, rates=rates)


def _best(run: Callable[[], object], repeats: int) -> float:
    best = float("inf")
    for _ in range(repeats):
        start = time.perf_counter()
        run()
        best = min(best, time.perf_counter() - start)
    return best


def limit(machine: Machine, config: LeanConfig, dtype: str, *, width: int, context: int) -> Limit:
    """One decode step of a dense shape: every matrix once, the head included, and the KV of all sequences.

    dtype: float32, bfloat16, int8 or int4, how the matrices are held, the head at int4 as int8; KV is bfloat16 unless
    all is float32.
    """
    query, key = config.num_heads * config.head_dim, config.num_kv_heads * config.head_dim
    per_layer = config.hidden_size * (2 * query + 2 * key + 3 * config.intermediate_size)
    layers, head = config.num_layers * per_layer, config.vocab_size * config.hidden_size
    cached = config.num_layers * 2 * key * context * width
    attention = config.num_layers * 2 * query * context * width
    bytes_read = int(LAYER_BYTES[dtype] * layers + HEAD_BYTES[dtype] * head + CACHE_BYTES[dtype] * cached)
    operations = 2 * ((layers + head) * width + attention)
    return Limit(
        bytes_read=bytes_read,
        operations=operations,
        memory_seconds=bytes_read / machine.bandwidth,
        compute_seconds=operations / machine.rates[dtype],
    )


def least_seconds(machine: Machine, config: LeanConfig, dtype: str, requests: Sequence[Request]) -> float:
    """Below this no server gets: the weights once per token of the longest answer, and all rows multiplied.

    The head multiplies one row for each new token, the layers those of the prompts too.
    """
    step = limit(machine, config, dtype, width=1, context=0)
    head = 2 * config.vocab_size * config.hidden_size
    prompts, new = sum(len(request.prompt) for request in requests), sum(request.new for request in requests)
    operations = prompts * (step.operations - head) + new * step.operations
    longest = max(request.new for request in requests)
    return max(longest * step.memory_seconds, operations / machine.rates[dtype])


def show(machine: Machine) -> str:
    """One line."""
    rates = ", ".join(f"{rate / 1e9:.0f} GFLOP/s {name}" for name, rate in machine.rates.items())
    return f"reads {machine.bandwidth / 1e9:.1f} GB/s; multiplies {rates}"
