"""Tensors of a Hugging Face model directory by name: one `model.safetensors` or shards with an index, read lazily."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Protocol

from safetensors import SafetensorError, safe_open
from torch import Tensor

from omniflow.experts.lean.errors import CheckpointError

Shape = tuple[int, ...]
INDEX_BYTES_LIMIT = 64 * 2**20


class TensorSource(Protocol):
    """Named tensors whose shapes are known before any of them is read."""

    @property
    def place(self) -> str:
        """What errors call the source."""

    @property
    def shapes(self) -> Mapping[str, Shape]:
        """The shape of every tensor."""

    def file_of(self, name: str) -> str:
        """The file that holds a tensor, for errors."""

    def read(self, name: str) -> Tensor:
        """One tensor as it is stored."""


class Checkpoint:
    """The tensors of a folder. Opening reads the headers only. Errors: CheckpointError naming the file.

    stem: the files' name without `.safetensors`; diffusers writes `diffusion_pytorch_model`.
    """

    def __init__(self, folder: Path, *, stem: str = "model") -> None:
        self.place = str(folder)
        self._folder = folder
        self._files: dict[str, Path] = {}
        self.shapes: dict[str, Shape] = {}
        for path in _shard_paths(folder, stem):
            self._open_shard(path)

    def _open_shard(self, path: Path) -> None:
        try:
            with safe_open(path, framework="pt") as shard:
                names = shard.keys()
                for name in names:
                    self.shapes[name] = tuple(shard.get_slice(name).get_shape())
                    self._files[name] = path
        except (SafetensorError, OSError) as error:
            raise CheckpointError(f"{path}: not a whole safetensors file: {error}") from None

    def file_of(self, name: str) -> str:
        """The shard of a tensor."""
        return str(self._files[name])

    def read(self, name: str) -> Tensor:
        """One tensor, mapped from its file."""
        with safe_open(self._files[name], framework="pt") as shard:
            tensor: Tensor = shard.get_tensor(name)
        return tensor


class Tensors:
    """A source over tensors in memory, such as a module's `state_dict()`."""

    def __init__(self, tensors: Mapping[str, Tensor], *, place: str = "memory") -> None:
        self.place = place
        self._tensors = tensors

    @property
    def shapes(self) -> Mapping[str, Shape]:
        """The shape of every tensor."""
        return {name: tuple(tensor.shape) for name, tensor in self._tensors.items()}

    def file_of(self, name: str) -> str:
        """The place, whatever the tensor."""
        del name
        return self.place

    def read(self, name: str) -> Tensor:
        """The tensor itself."""
        return self._tensors[name]


def _shard_paths(folder: Path, stem: str) -> list[Path]:
    single, index = folder / f"{stem}.safetensors", folder / f"{stem}.safetensors.index.json"
    if single.is_file():
        return [single]
    if not index.is_file():
        raise CheckpointError(f"{folder}: neither {single.name} nor {index.name} is there")
    if index.stat().st_size > INDEX_BYTES_LIMIT:
        raise CheckpointError(f"{index}: larger than {INDEX_BYTES_LIMIT} bytes; this is no index")
    try:
        names = set(json.loads(index.read_text(encoding="utf-8"))["weight_map"].values())
    except (UnicodeDecodeError, json.JSONDecodeError, KeyError, TypeError, AttributeError):
        raise CheckpointError(f"{index}: not an index of shards (`weight_map` from tensor to file)") from None
    paths = [_shard_path(folder, index, name) for name in names]
    return sorted(paths)


def _shard_path(folder: Path, index: Path, name: object) -> Path:
    if not isinstance(name, str) or Path(name).name != name:
        raise CheckpointError(f"{index}: {name!r} is not a file name in the same folder")
    if not (folder / name).is_file():
        raise CheckpointError(f"{index}: shard {name} is missing from {folder}")
    return folder / name
