"""Reading one expert's share of a safetensors file that several experts live in."""

from __future__ import annotations

from pathlib import Path

from safetensors import safe_open
from torch import Tensor


def tensors_under(prefix: str, path: Path) -> dict[str, Tensor]:
    """Tensors whose names start with `prefix`, by the rest of their names; the others are not read."""
    with safe_open(path, framework="pt") as file:
        names = [name for name in file.keys() if name.startswith(prefix)]  # noqa: SIM118
        return {name.removeprefix(prefix): file.get_tensor(name) for name in names}
