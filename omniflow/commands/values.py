"""Inputs as they are written on a command line: text as it is, JSON for data, a file's path for sound and arrays."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import soundfile
import torch

from omniflow.errors import InputError
from omniflow_compiler.schedule import Input, PortType, Schedule

MAX_FILE_BYTES = 256 << 20


def read_inputs(schedule: Schedule, written: Mapping[str, str]) -> dict[str, Any]:
    """Values of the written inputs; unknown names stay for the engine to refuse. Errors: InputError."""
    declared = {spec.name: spec for spec in schedule.inputs}
    return {name: _read(declared[name], text) if name in declared else text for name, text in written.items()}


def _read(spec: Input, text: str) -> Any:
    kind = spec.type
    if kind.base == "text" and not kind.axes:
        return text
    if kind.base == "audio":
        return _sound(spec, text)
    if kind.base in ("json", "record", "scalar", "tokens", "codes", "text"):
        try:
            return json.loads(text)
        except json.JSONDecodeError as error:
            raise InputError(f"input {spec.name} must be {kind.text}, written as JSON: {error}") from None
    return _array(spec, text)


def _file(spec: Input, text: str) -> Path:
    path = Path(text)
    if not path.is_file():
        raise InputError(f"input {spec.name} is {spec.type.text} and takes a file's path; there is no file {text}")
    if path.stat().st_size > MAX_FILE_BYTES:
        raise InputError(f"input {spec.name}: {text} is larger than {MAX_FILE_BYTES >> 20} MiB")
    return path


def _sound(spec: Input, text: str) -> torch.Tensor:
    path = _file(spec, text)
    try:
        samples, rate = soundfile.read(str(path), dtype="float32", always_2d=False)
    except (RuntimeError, OSError):
        raise InputError(f"input {spec.name}: {text} is not a sound file that can be read") from None
    wanted = spec.type.rate_hz
    if wanted and rate != wanted:
        raise InputError(f"input {spec.name} must have {wanted:g} samples a second, {text} has {rate}; resample it")
    if samples.ndim != 1:
        raise InputError(f"input {spec.name} must have one channel, {text} has {samples.shape[1]}")
    return torch.from_numpy(samples)


def _array(spec: Input, text: str) -> torch.Tensor:
    path = _file(spec, text)
    try:
        if path.suffix == ".npy":
            return torch.from_numpy(np.load(path, allow_pickle=False))
        return pixels(path, spec.type)
    except (ValueError, OSError, EOFError):
        raise InputError(f"input {spec.name} is {spec.type.text}; {text} is no .npy file (or image) of one") from None


def pixels(path: Path, kind: PortType) -> torch.Tensor:
    """An image file as [H, W, C], floats in [0, 1] unless the type holds integers. Errors: InputError, OSError."""
    try:
        from PIL import Image
    except ImportError:
        raise InputError(f"{path.name}: reading images needs pillow: pip install pillow") from None
    with Image.open(path) as image:
        array = np.asarray(image.convert("RGB"))
    tensor = torch.from_numpy(array.copy())
    return tensor if (kind.dtype or "").startswith("u") else tensor.float() / 255
