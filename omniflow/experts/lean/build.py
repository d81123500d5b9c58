"""Makes lean decoders: from a Hugging Face model directory, from tensors in memory, or with random weights."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import torch
from torch import Tensor

from omniflow.experts.lean.checkpoint import Checkpoint, Shape, Tensors, TensorSource
from omniflow.experts.lean.config import LeanConfig, read_config
from omniflow.experts.lean.decoder import LeanDecoder
from omniflow.experts.lean.errors import CheckpointError
from omniflow.experts.lean.layout import TensorNames, expected_shapes
from omniflow.experts.lean.linear import Quantize
from omniflow.experts.lean.native_stack import NativeStack
from omniflow.experts.lean.rope import Rope
from omniflow.experts.lean.stack import Stack, TorchStack
from omniflow.experts.lean.weights import WeightReader
from omniflow.kv import KvArena
from omniflow.native.binding import Kind, load_native

_KINDS: Mapping[Quantize, Kind] = {"int8": Kind.INT8, "int4": Kind.INT4}


def load(
    folder: Path,
    *,
    dtype: torch.dtype,
    device: torch.device,
    cache_tokens: int,
    block_tokens: int,
    prefix: str = "",
    section: str = "",
    names: TensorNames | None = None,
    config: LeanConfig | None = None,
    taps: Mapping[str, int] | None = None,
    native: bool = True,
    quantize: Quantize = "none",
) -> LeanDecoder:
    """The decoder of a model directory with room for `cache_tokens` tokens of KV in blocks of `block_tokens`.

    prefix: of the decoder's tensors when it is part of a larger model (`thinker.model.`); names: where they are
    when the usual names do not fit; section: dotted path of its part of config.json (`thinker_config.text_config`);
    config: instead of reading one; native, quantize: see `from_source`. Errors: CheckpointError, before anything large
    is read.
    """
    chosen = read_config(folder, section=section) if config is None else config
    return from_source(
        chosen,
        Checkpoint(folder),
        names=TensorNames.under(prefix) if names is None else names,
        dtype=dtype,
        device=device,
        cache_tokens=cache_tokens,
        block_tokens=block_tokens,
        taps=taps,
        native=native,
        quantize=quantize,
    )


def from_source(
    config: LeanConfig,
    source: TensorSource,
    *,
    names: TensorNames,
    dtype: torch.dtype,
    device: torch.device,
    cache_tokens: int,
    block_tokens: int,
    taps: Mapping[str, int] | None = None,
    native: bool = True,
    quantize: Quantize = "none",
) -> LeanDecoder:
    """The decoder of a config with the tensors of any source. Errors: CheckpointError.

    native: use the native step where it can be built (CPU, dense shapes) instead of plain torch. quantize, which
    changes results and needs a CPU and a dense shape: `int8` holds all matrices as int8 and quantises activations per
    token; `int4` holds the layers' matrices as int4 in groups of 32 columns, and natively the head and activations as
    int8.
    """
    if dtype not in (torch.float32, torch.bfloat16):
        raise CheckpointError(f"{source.place}: dtype {dtype} is not supported, only float32 and bfloat16")
    for name, layer in (taps or {}).items():
        if not 0 <= layer < config.num_layers:
            raise CheckpointError(f"tap {name}: there is no layer {layer} among {config.num_layers}")
    reader = WeightReader(source, config, names, dtype=dtype, device=device)
    stack = _stack(config, dtype=dtype, device=device, native=native, quantize=quantize, place=source.place)
    arena = KvArena(
        num_layers=config.num_layers,
        num_kv_heads=config.num_kv_heads,
        head_dim=config.head_dim,
        num_blocks=-(-cache_tokens // block_tokens),
        block_tokens=block_tokens,
        dtype=dtype,
        device=device,
    )
    embed = reader.embed()
    return LeanDecoder(
        config,
        _fill(stack, reader, config, embed),
        embed=embed,
        arena=arena,
        rope=Rope(config.rope, head_dim=config.head_dim, device=device),
        dtype=dtype,
        device=device,
        taps=taps or {},
    )


def _stack(
    config: LeanConfig, *, dtype: torch.dtype, device: torch.device, native: bool, quantize: Quantize, place: str
) -> Stack:
    if quantize != "none" and (device.type != "cpu" or config.moe is not None):
        raise CheckpointError(f"{place}: {quantize} weights need a CPU and a dense shape")
    library = load_native() if native and device.type == "cpu" and NativeStack.supports(config) else None
    if library is None:
        return TorchStack(config, quantize=quantize)
    plain = Kind.BFLOAT16 if dtype == torch.bfloat16 else Kind.FLOAT32
    return NativeStack(config, library, kind=_KINDS.get(quantize, plain))


def _fill(stack: Stack, reader: WeightReader, config: LeanConfig, embed: Tensor | None) -> Stack:
    for index in range(config.num_layers):
        stack.add_layer(reader.layer(index))
    stack.finish(norm=reader.norm(), head=reader.head(embed))
    return stack


def random(
    config: LeanConfig,
    seed: int,
    *,
    dtype: torch.dtype = torch.float32,
    device: torch.device | None = None,
    cache_tokens: int = 1024,
    block_tokens: int = 16,
    native: bool = True,
    quantize: Quantize = "none",
) -> LeanDecoder:
    """A decoder with random weights that keep activations near unit size: for tests and benchmarks."""
    return from_source(
        config,
        Tensors(random_tensors(config, seed), place=f"random weights of seed {seed}"),
        names=TensorNames(),
        dtype=dtype,
        device=torch.device("cpu") if device is None else device,
        cache_tokens=cache_tokens,
        block_tokens=block_tokens,
        native=native,
        quantize=quantize,
    )


def random_tensors(config: LeanConfig, seed: int) -> dict[str, Tensor]:
    """float32 tensors under the usual checkpoint names; matrices are normal with variance 1 / fan-in, norms near 1."""
    generator = torch.Generator().manual_seed(seed)
    shapes = expected_shapes(config, TensorNames(), fused_experts=True)
    return {name: _random_tensor(name, shape, generator) for name, shape in shapes.items()}


def _random_tensor(name: str, shape: Shape, generator: torch.Generator) -> Tensor:
    values = torch.randn(shape, generator=generator)
    if name.endswith("norm.weight"):
        return 1 + 0.1 * values
    if len(shape) == 1:
        return 0.1 * values
    return values if "embed" in name else values / shape[-1] ** 0.5
