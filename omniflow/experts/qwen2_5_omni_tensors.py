"""Reading one part of a Qwen2.5-Omni checkpoint: its section of config.json and its tensors, checked before reading."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeVar

import torch
from torch import Tensor, nn

from omniflow.experts import hf_folder
from omniflow.experts.lean import CheckpointError, TensorSource

Json = Any
M = TypeVar("M", bound=nn.Module)
MODEL_TYPE = "qwen2_5_omni"
DERIVED = (".inv_freq", ".filter", ".positional_embedding")  # some checkpoints keep what follows from the config


def read_section(folder: Path, section: str) -> Mapping[str, Json]:
    """The part of config.json at a dotted path. Errors: CheckpointError for another architecture or a missing part."""
    return hf_folder.read_section(folder, section, model_type=MODEL_TYPE)


def number(section: Mapping[str, Json], name: str) -> int:
    """A size. Errors: CheckpointError naming the field."""
    value = section.get(name)
    if not isinstance(value, int) or isinstance(value, bool) or value < 1:
        raise CheckpointError(
            f"config.json: {name} of {section.get('model_type')} must be a positive integer, not {value!r}"
        )
    return value


def numbers(section: Mapping[str, Json], name: str) -> tuple[int, ...]:
    """A list of whole numbers. Errors: CheckpointError naming the field."""
    value = section.get(name)
    if not isinstance(value, list) or any(not isinstance(v, int) or isinstance(v, bool) or v < 0 for v in value):
        raise CheckpointError(
            f"config.json: {name} of {section.get('model_type')} must be a list of numbers, not {value!r}"
        )
    return tuple(value)


def expect(section: Mapping[str, Json], name: str, known: Json) -> None:
    """Refuses a switch that changes the computation in a way that is not implemented. Errors: CheckpointError."""
    value = section.get(name, known)
    if value != known:
        raise CheckpointError(
            f"config.json: {name} = {value!r} of {section.get('model_type')} is not supported, only {known!r}"
        )


def rope_theta(section: Mapping[str, Json]) -> float:
    """The base of rotary positions, in the newer or the older place."""
    rope = section.get("rope_parameters") or section.get("rope_scaling") or {}
    value = rope.get("rope_theta", section.get("rope_theta", 10000.0))
    if not isinstance(value, (int, float)) or value <= 0:
        raise CheckpointError(f"config.json: rope_theta of {section.get('model_type')} must be positive, not {value!r}")
    return float(value)


def fill(
    module: M,
    checkpoint: TensorSource,
    prefix: str,
    *,
    dtype: torch.dtype,
    device: torch.device,
    others: tuple[str, ...] = (),
) -> M:
    """Gives a module made on the meta device the tensors below `prefix`, as `read` does. Errors: CheckpointError."""
    shapes = {name: tuple(tensor.shape) for name, tensor in module.state_dict().items()}
    tensors = read(shapes, checkpoint, prefix, dtype=dtype, device=device, others=others)
    module.load_state_dict(tensors, assign=True)
    return module.requires_grad_(False).eval()


def read(
    shapes: Mapping[str, tuple[int, ...]],
    checkpoint: TensorSource,
    prefix: str,
    *,
    dtype: torch.dtype,
    device: torch.device,
    others: tuple[str, ...] = (),
) -> dict[str, Tensor]:
    """The tensors below `prefix`, which must have these names and shapes: that is checked before any is read.

    others: names below `prefix` that belong to another part. Errors: CheckpointError naming tensor and file.
    """
    for name, shape in shapes.items():
        found = checkpoint.shapes.get(prefix + name)
        if found is None:
            raise CheckpointError(f"{checkpoint.place}: tensor {prefix + name} is missing")
        if found != shape:
            file = checkpoint.file_of(prefix + name)
            raise CheckpointError(f"{file}: tensor {prefix + name} has shape {list(found)}, expected {list(shape)}")
    for name in checkpoint.shapes:
        own = name.removeprefix(prefix)
        if own != name and own not in shapes and not own.endswith(DERIVED) and not own.startswith(others):
            raise CheckpointError(f"{checkpoint.file_of(name)}: tensor {name} has no place in this architecture")
    return {name: checkpoint.read(prefix + name).to(device=device, dtype=dtype) for name in shapes}
