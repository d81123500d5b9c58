"""Configs of Hugging Face folders, and parts of diffusers ones as modules: checked, then only the part is read."""

from __future__ import annotations

import inspect
import json
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from omniflow.experts.lean import Checkpoint, CheckpointError
from omniflow_compiler.schedule import Expert

Json = Any
MAX_CONFIG_BYTES = 4 << 20
DIFFUSERS, TRANSFORMERS = "diffusion_pytorch_model", "model"  # how the two name their files
DTYPES: Mapping[str, torch.dtype] = {
    "float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16,
}  # fmt: skip


def read_json(path: Path) -> dict[str, Json]:
    """A JSON object. Errors: CheckpointError naming the file."""
    try:
        if path.stat().st_size > MAX_CONFIG_BYTES:
            raise CheckpointError(f"{path}: larger than {MAX_CONFIG_BYTES >> 20} MiB; this is no config")
        data = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise CheckpointError(f"{path}: cannot be read: {(error.strerror or 'error').lower()}") from None
    except (UnicodeDecodeError, json.JSONDecodeError, RecursionError) as error:
        raise CheckpointError(f"{path}: is not JSON: {error}") from None
    if not isinstance(data, dict):
        raise CheckpointError(f"{path}: holds no JSON object")
    return data


def folder_of(spec: Expert, *pipelines: str) -> Path:
    """The folder that a component names. Errors: CheckpointError unless it holds one of these diffusers pipelines."""
    folder = Path(spec.source or "")
    index = folder / "model_index.json"
    if not index.is_file():
        raise CheckpointError(f"{folder}: there is no model_index.json; this is no diffusers folder")
    found = read_json(index).get("_class_name")
    if found not in pipelines:
        raise CheckpointError(f"{index}: _class_name is {found!r}, this expert reads {' or '.join(pipelines)}")
    return folder


def read_config(folder: Path, *, key: str, kind: str) -> dict[str, Json]:
    """config.json of a part. Errors: CheckpointError when `key` does not say `kind`: another architecture."""
    path = folder / "config.json"
    config = read_json(path)
    if config.get(key) != kind:
        raise CheckpointError(f"{path}: {key} is {config.get(key)!r}, this expert reads {kind!r}")
    return config


def read_section(folder: Path, section: str, *, model_type: str) -> dict[str, Json]:
    """The part of a transformers config.json at a dotted path, all of it at "".

    Errors: CheckpointError for another architecture or a missing part.
    """
    part = read_config(folder, key="model_type", kind=model_type)
    for key in section.split(".") if section else ():
        found = part.get(key)
        if not isinstance(found, dict):
            where = folder / "config.json"
            raise CheckpointError(f"{where}: there is no section `{section}`; this checkpoint has no such part")
        part = found
    return part


def diffusers_module(folder: Path, model: Any, config: Mapping[str, Json]) -> nn.Module:
    """A diffusers model without weights. Errors: CheckpointError for settings that it does not have."""
    known = inspect.signature(model.__init__).parameters
    for name in config:
        if not name.startswith("_") and name not in known:
            raise CheckpointError(f"{folder / 'config.json'}: {name} is not known to {model.__name__}")
    return hollow(lambda: model.from_config(dict(config)))


def hollow(make: Callable[[], nn.Module]) -> nn.Module:
    """A module whose parameters have shapes and no memory; its buffers are real."""
    from accelerate import init_empty_weights

    with init_empty_weights(include_buffers=False):
        return make()


def fill(
    module: nn.Module,
    folder: Path,
    stem: str,
    spec: Expert,
    *,
    parts: tuple[str, ...] = ("",),
    prefix: str = "",
    derived: tuple[str, ...] = (),
    others: tuple[str, ...] = (),
) -> nn.Module:
    """Reads a hollow module's tensors; names and shapes of all are checked first, those of `parts` alone are read.

    prefix: what some files put before every name. derived: ends of names that follow from the config and are left out.
    others: beginnings of names that belong to parts which the module was made without.
    Errors: CheckpointError naming tensor and file.
    """
    checkpoint = Checkpoint(folder, stem=stem)
    stored = {name.removeprefix(prefix): name for name in checkpoint.shapes if not name.endswith(derived)}
    stored = {own: name for own, name in stored.items() if not own.startswith(others)}
    wanted = _aliases(module)
    chosen = {names: _check(names, module, stored, checkpoint) for names in wanted}
    known = {name for names in wanted for name in names}
    spare = tuple(getattr(module, "_keys_to_ignore_on_load_unexpected", None) or ())  # patterns of the original
    for own, name in stored.items():
        if own not in known and not any(re.search(pattern, own) for pattern in spare):
            raise CheckpointError(f"{checkpoint.file_of(name)}: tensor {name} has no place in this architecture")
    dtype, device = dtype_of(spec), torch.device(spec.device)
    exact = tuple(getattr(module, "_keep_in_fp32_modules", None) or ()) if stem == DIFFUSERS else ()
    tensors: dict[str, Tensor] = {}
    for names, name in chosen.items():
        if names[0].startswith(parts):
            keeps = any(part in names[0].split(".") for part in exact)
            tensor = checkpoint.read(name).to(device=device, dtype=torch.float32 if keeps else dtype)
            tensors.update(dict.fromkeys(names, tensor))
    module.load_state_dict(tensors, assign=True, strict=False)
    return module.requires_grad_(False).eval()


def _aliases(module: nn.Module) -> list[tuple[str, ...]]:
    """Names of the module's tensors; names of one tensor are together."""
    names: dict[int, list[str]] = {}
    for name, tensor in module.state_dict(keep_vars=True).items():
        names.setdefault(id(tensor), []).append(name)
    return [tuple(sorted(group)) for group in names.values()]


def _check(names: tuple[str, ...], module: nn.Module, stored: Mapping[str, str], checkpoint: Checkpoint) -> str:
    """The stored name of a tensor with these names."""
    found = [stored[name] for name in names if name in stored]
    if not found:
        raise CheckpointError(f"{checkpoint.place}: tensor {names[0]} is missing")
    shape = tuple(module.state_dict()[names[0]].shape)
    for name in found:
        if checkpoint.shapes[name] != shape:
            raise CheckpointError(
                f"{checkpoint.file_of(name)}: tensor {name} has shape {list(checkpoint.shapes[name])}, "
                f"expected {list(shape)}"
            )
    return found[0]


def dtype_of(spec: Expert) -> torch.dtype:
    """The torch dtype of a component. Errors: CheckpointError for one that weights cannot have."""
    if spec.dtype not in DTYPES:
        raise CheckpointError(f"dtype {spec.dtype} is not one of {', '.join(DTYPES)}")
    return DTYPES[spec.dtype]
