"""Files as inputs: text, JSON, tensors, sound and pictures, each capped in size before it is decoded.

A file is named by `@path`; `@path#name` is one tensor of a safetensors file.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import soundfile
import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor

from omniflow.errors import InputError
from omniflow.resample import resample
from omniflow.values import is_starred
from omniflow_compiler.schedule import Input, PortType

if TYPE_CHECKING:
    from PIL.Image import Image

MAX_FILE_BYTES = 256 << 20
MAX_TEXT_BYTES = 4 << 20
MAX_SECONDS = 3600
MAX_SAMPLES = 256 << 20  # of all channels
MAX_PIXELS = 64 << 20  # of a picture, or of all frames of a clip
MAX_FRAMES = 4096
PICTURES = ("PNG", "JPEG", "WEBP", "BMP", "GIF", "TIFF")
FILE = "@"


def read_file(spec: Input, written: str) -> Any:
    """The value of an input from `path` or `path#tensor`. Errors: InputError naming input, file and what is wrong."""
    name, _, tensor = written.partition("#")
    path = Path(name)
    if not name:
        given = f"{FILE}{written}"
        raise InputError(f"input {spec.name} is {spec.type.text}; `{given}` names no file: write {FILE} and its path")
    if path.is_dir():
        raise InputError(f"input {spec.name} is {spec.type.text}; {name} is a folder, not a file")
    if not path.is_file():
        raise InputError(f"input {spec.name} is {spec.type.text}; there is no file {name}")
    base = "text" if spec.type.base in ("text", "json", "record", "scalar") else spec.type.base
    limit = MAX_TEXT_BYTES if base == "text" else MAX_FILE_BYTES
    if path.stat().st_size > limit:
        raise InputError(f"input {spec.name}: {name} is larger than {limit >> 20} MiB")
    try:
        return _reader(path, spec.type)(path, tensor, spec.type)
    except (ValueError, OSError, EOFError, RuntimeError, SafetensorError) as error:
        text = " ".join(str(error).split())
        raise InputError(f"input {spec.name} is {spec.type.text}; {name} cannot be one: {text}") from None


def _reader(path: Path, kind: PortType) -> Callable[[Path, str, PortType], Any]:
    if path.suffix == ".safetensors":
        return _stored_tensor
    if path.suffix == ".npy":
        return _array
    if kind.base == "text" and not kind.axes:
        return _text
    if path.suffix == ".json" or kind.base in ("json", "record", "scalar", "text"):
        return _json
    if kind.base == "audio":
        return _sound
    return _clip if kind.base == "video" else _picture


def _text(path: Path, _name: str, _kind: PortType) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except UnicodeDecodeError:
        raise ValueError("it is not UTF-8") from None


def _json(path: Path, _name: str, _kind: PortType) -> Any:
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (UnicodeDecodeError, json.JSONDecodeError, RecursionError) as error:
        raise ValueError(f"it is not JSON: {error}") from None


def _stored_tensor(path: Path, name: str, kind: PortType) -> Tensor:
    with safe_open(path, framework="pt") as file:
        names = sorted(file.keys())
        if name not in names:
            hint = ", ".join(names[:8]) + (" ..." if len(names) > 8 else "")
            raise ValueError(f"name one of its tensors behind a #: {hint}" if not name else f"it has {hint}")
        return without_batch(file.get_tensor(name), kind)


def _array(path: Path, _name: str, kind: PortType) -> Tensor:
    return without_batch(torch.from_numpy(np.load(path, allow_pickle=False)), kind)


def without_batch(tensor: Tensor, kind: PortType) -> Tensor:
    """A tensor without the leading axis of one that published models count requests with."""
    axes = len(kind.axes) - is_starred(kind)
    return tensor[0] if tensor.ndim == axes + 1 and len(tensor) == 1 else tensor


def _sound(path: Path, _name: str, kind: PortType) -> Tensor:
    """Samples [S] of one channel, or [S, channels], at the type's rate; of one item for a type of many."""
    info = soundfile.info(str(path))
    if info.frames * info.channels > MAX_SAMPLES:
        raise ValueError(f"it has {info.frames} x {info.channels} samples, more than {MAX_SAMPLES >> 20} Mi")
    if info.frames > MAX_SECONDS * info.samplerate:
        raise ValueError(f"it is longer than {MAX_SECONDS} s")
    data, rate = soundfile.read(str(path), dtype="float32", always_2d=True)
    samples = torch.from_numpy(data)
    wanted = round(kind.rate_hz) if kind.rate_hz else rate
    samples = resample(samples.T, rate, wanted).T
    return samples.mean(1) if len(kind.axes) - is_starred(kind) == 1 else samples


def _picture(path: Path, _name: str, kind: PortType) -> Tensor:
    """Pixels [H, W, C], floats in [0, 1] unless the type holds integers."""
    with _opened(path) as image:
        _check_pixels(image, 1)
        return _pixels(image, kind)


def _clip(path: Path, _name: str, kind: PortType) -> Tensor:
    """The frames [F, H, W, C] of an animation."""
    with _opened(path) as image:
        frames = int(getattr(image, "n_frames", 1))
        _check_pixels(image, frames)
        found = []
        for i in range(frames):
            image.seek(i)
            found.append(_pixels(image, kind))
    return torch.stack(found)


def _opened(path: Path) -> Image:
    try:
        from PIL import Image
    except ImportError:
        raise ValueError("reading pictures needs pillow: pip install 'omniflow[hf]'") from None
    return Image.open(path, formats=PICTURES)


def _check_pixels(image: Image, frames: int) -> None:
    """Refuses what would fill the memory before anything is decoded."""
    if frames > MAX_FRAMES or math.prod(image.size) * frames > MAX_PIXELS:
        raise ValueError(f"it has {frames} x {image.size[0]} x {image.size[1]} pixels, more than {MAX_PIXELS >> 20} Mi")


def _pixels(image: Image, kind: PortType) -> Tensor:
    from PIL import ImageOps

    upright = ImageOps.exif_transpose(image)
    channels = {"1": "L", "4": "RGBA"}.get(kind.axes[-1], "RGB")
    array = np.asarray(_eight_bits(upright).convert(channels))
    tensor = torch.from_numpy(array.reshape(*array.shape[:2], -1).copy())
    return tensor if (kind.dtype or "").startswith(("u", "i")) else tensor.float() / 255


def _eight_bits(image: Image) -> Image:
    """A picture of 16 bits of grey in eight; Pillow would take all but the darkest for white."""
    from PIL import Image

    if not image.mode.startswith("I;16"):
        return image
    return Image.fromarray((np.asarray(image) >> 8).astype(np.uint8))
