"""Matrix products in int8 and int4: ours and those of libraries, on every matrix of a few layers, one thread.

    python benchmarks/quantized_kernels.py
    PYTHONPATH=FOLDER python benchmarks/quantized_kernels.py      with torchao unpacked there

Milliseconds of CPU time, best of `--repeats`. A library's figure is its products, with the quantising of activations
where it does not do that itself. Ours are whole steps: norms, attention over one token, activations and all. `shared`
marks kernels that quantise the activations of all rows with one scale, so that a row depends on its neighbours.
"""

from __future__ import annotations

import argparse
import json
import time
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path

import torch
from torch import Tensor

from omniflow.experts import lean
from omniflow.experts.lean.linear import Int4Linear, Int8Linear, PackedLinear
from omniflow.native import load_native
from omniflow.roles import TokenRows

HIDDEN, INNER, HEADS, KV_HEADS, HEAD = 576, 1536, 9, 3, 64  # SmolLM2-135M
SHAPES = ((960, HIDDEN), (HIDDEN, HIDDEN), (2 * INNER, HIDDEN), (HIDDEN, INNER))
Product = Callable[[Tensor], Tensor]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--layers", type=int, default=8, help="more than the processor's cache holds")
    parser.add_argument("--rows", default="1,8,32,64")
    parser.add_argument("--repeats", type=int, default=8)
    parser.add_argument("--json", help="where to write the figures")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    rows = [int(count) for count in options.rows.split(",")]
    report: dict[str, dict[int, float]] = {}
    print(f"{'ms of ' + str(options.layers) + ' layers, by rows':44}" + "".join(f"{count:9}" for count in rows))
    for name, runs in [*_ours(options.layers, rows), *_libraries(options.layers, rows)]:
        report[name] = {count: _best(run, options.repeats) for count, run in zip(rows, runs, strict=True)}
        print(f"{name:44}" + "".join(f"{report[name][count]:9.2f}" for count in rows), flush=True)
    if options.json:
        Path(options.json).write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")


def _best(run: Callable[[], object], repeats: int) -> float:
    start = time.thread_time()
    run()
    best = time.thread_time() - start
    for _ in range(repeats if best < 1.0 else 0):  # a kernel without a fast path here
        start = time.thread_time()
        run()
        best = min(best, time.thread_time() - start)
    return best * 1e3


def _ours(layers: int, rows: Sequence[int]) -> list[tuple[str, list[Callable[[], object]]]]:
    forms: list[tuple[str, torch.dtype, lean.Quantize, bool]] = [
        ("bfloat16, plain torch step", torch.bfloat16, "none", False),
        ("int8, plain torch step (_int_mm)", torch.bfloat16, "int8", False),
        ("int4, plain torch step (int4pack)", torch.bfloat16, "int4", False),
    ]
    if load_native() is not None:
        forms[:0] = [
            ("bfloat16, native step", torch.bfloat16, "none", True),
            ("int8, native step", torch.bfloat16, "int8", True),
            ("int4, native step", torch.bfloat16, "int4", True),
        ]
    return [(name, [_step(layers, *form, count) for count in rows]) for name, *form in forms]  # type: ignore[arg-type]


def _step(layers: int, dtype: torch.dtype, quantize: lean.Quantize, native: bool, rows: int) -> Callable[[], object]:
    config = lean.LeanConfig(
        vocab_size=256,
        hidden_size=HIDDEN,
        intermediate_size=INNER,
        num_layers=layers,
        num_heads=HEADS,
        num_kv_heads=KV_HEADS,
        head_dim=HEAD,
        norm_eps=1e-5,
        rope=lean.RopeConfig(theta=100000.0),
    )
    decoder = lean.random(config, 0, dtype=dtype, quantize=quantize, native=native, cache_tokens=64 * rows + 64)
    opened = [decoder.open({}, max_positions=64) for _ in range(rows)]
    given = [
        TokenRows(sequence=sequence, ids=torch.tensor([1]), wants_logits=False)
        for sequence in opened
        if sequence is not None
    ]
    return lambda: decoder.step(given)


def _libraries(layers: int, rows: Sequence[int]) -> list[tuple[str, list[Callable[[], object]]]]:
    makers: dict[str, tuple[Callable[[Tensor], Product], torch.dtype]] = {
        "bfloat16: oneDNN, packed": (lambda w: PackedLinear(w.bfloat16(), None), torch.bfloat16),
        "int8: _int_mm, scale per token": (lambda w: Int8Linear(w, None), torch.float32),
        "int8: onednn.qlinear, scale per token": (_qlinear, torch.float32),
        "int8: quantized.linear_dynamic, shared": (_dynamic, torch.float32),
        "int8: _weight_int8pack_mm, weights only": (_weight_only, torch.bfloat16),
        "int4: _weight_int4pack_mm_for_cpu": (lambda w: Int4Linear(w.bfloat16(), None), torch.bfloat16),
        "int4: _dyn_quant_matmul_4bit": (_dynamic_int4, torch.float32),
        "int8: torchao, dynamic": (_torchao("Int8DynamicActivationInt8WeightConfig"), torch.float32),
        "int8: torchao, weights only": (_torchao("Int8WeightOnlyConfig"), torch.bfloat16),
    }
    found = []
    for name, (make, dtype) in makers.items():
        try:
            products = [(make(torch.randn(shape)), shape[1]) for _ in range(layers) for shape in SHAPES]
        except (ImportError, RuntimeError, NotImplementedError) as reason:
            print(f"{name:44} absent: {str(reason).splitlines()[0][:60]}")
            continue
        found.append((name, [_all(products, count, dtype) for count in rows]))
    return found


def _all(products: Sequence[tuple[Product, int]], rows: int, dtype: torch.dtype) -> Callable[[], object]:
    given = {width: torch.randn(rows, width).to(dtype) for width in (HIDDEN, INNER)}

    def run() -> None:
        with torch.inference_mode():
            for product, width in products:
                product(given[width])

    return run


def _qlinear(weight: Tensor) -> Product:
    """Activations as uint8 around 128, which this kernel wants; with int8 it falls back to a loop."""
    scales = weight.abs().amax(dim=1) / 127
    packed = torch.ops.onednn.qlinear_prepack((weight / scales[:, None]).round().to(torch.int8), None)
    zeros = torch.zeros(len(weight), dtype=torch.int64)

    def product(x: Tensor) -> Tensor:
        steps = x.abs().amax(dim=1, keepdim=True) / 127
        whole = ((x / steps).round() + 128).to(torch.uint8)
        args = (whole, 1.0, 128, packed, scales, zeros, None, 1.0, 0, torch.float32, "none", [], "")
        out: Tensor = torch.ops.onednn.qlinear_pointwise(*args)
        return out * steps

    return product


def _dynamic(weight: Tensor) -> Product:
    layer = torch.nn.Linear(weight.shape[1], weight.shape[0], bias=False)
    layer.qconfig = torch.ao.quantization.per_channel_dynamic_qconfig  # type: ignore[assignment]
    made: Product = torch.ao.nn.quantized.dynamic.Linear.from_float(layer)
    return made


def _weight_only(weight: Tensor) -> Product:
    scales = weight.abs().amax(dim=1) / 127
    whole, scales = (weight / scales[:, None]).round().to(torch.int8), scales.bfloat16()
    return lambda x: torch.ops.aten._weight_int8pack_mm(x, whole, scales)


def _dynamic_int4(weight: Tensor) -> Product:
    rows, columns = weight.shape
    packed_bytes = torch.randint(0, 256, (rows, columns // 2), dtype=torch.uint8)
    scales = torch.rand(rows, columns // 32).bfloat16()
    packed = torch.ops.aten._dyn_quant_pack_4bit_weight(packed_bytes, scales, None, 32, columns, rows)
    return lambda x: torch.ops.aten._dyn_quant_matmul_4bit(x, packed, 32, columns, rows)


def _torchao(config: str) -> Callable[[Tensor], Product]:
    def make(weight: Tensor) -> Product:
        from torchao import quantization

        dtype = torch.bfloat16 if "WeightOnly" in config else torch.float32
        layer = torch.nn.Linear(weight.shape[1], weight.shape[0], bias=False, dtype=dtype)
        holder = torch.nn.Sequential(layer)
        quantization.quantize_(holder, vars(quantization)[config]())
        made: Product = holder[0]
        return made

    return make


if __name__ == "__main__":
    main()
