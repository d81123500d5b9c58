"""What a schedule says of a component that is a part of a checkpoint folder: where the folder is, and the dtype."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import torch

from omniflow_compiler.schedule import Expert

DTYPES: Mapping[str, torch.dtype] = {"float32": torch.float32, "bfloat16": torch.bfloat16}


def part_folder(spec: Expert) -> Path:
    """Errors: ValueError where none is given."""
    if spec.source is None or spec.source.startswith("$"):
        raise ValueError("it needs the folder of a checkpoint: --set weights=FOLDER")
    return Path(spec.source)


def part_dtype(spec: Expert) -> torch.dtype:
    """Errors: ValueError for a dtype that these parts do not have."""
    if spec.dtype not in DTYPES:
        raise ValueError(f"dtype {spec.dtype} is not one of {', '.join(DTYPES)}")
    return DTYPES[spec.dtype]
