"""Outputs as files: text, WAV, PNG, JSON and NPY, each as bytes, with nothing lost that the format can hold."""

from __future__ import annotations

import io
import json
import struct
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import soundfile
from torch import Tensor

from omniflow.values import Value, is_starred
from omniflow_compiler.schedule import Output, PortType


@dataclass(frozen=True, slots=True, kw_only=True)
class Artefact:
    """A file's name and content."""

    name: str
    data: bytes


def artefact(spec: Output, value: Value, *, is_whole: bool = True) -> Artefact:
    """The file of an output: `text.txt`, `audio.wav`; one that is not whole is `audio.partial.wav`."""
    suffix, data = _encode(spec.type, value)
    return Artefact(name=f"{spec.name}{'' if is_whole else '.partial'}{suffix}", data=data)


def _encode(kind: PortType, value: Value) -> tuple[str, bytes]:
    if is_starred(kind):
        return ".json", _json([plain(item) for item in value])
    if kind.base == "text":
        return ".txt", str(value).encode()
    if kind.base == "audio" and kind.rate_hz:
        return ".wav", wav(value, round(kind.rate_hz))
    if kind.base == "image":
        return ".png", png(value)
    if isinstance(value, Tensor) and kind.base not in ("tokens", "codes"):
        return ".npy", npy(value)
    return ".json", _json(plain(value))


def plain(value: Value) -> Any:
    """A value as JSON holds it."""
    if isinstance(value, Tensor):
        return value.tolist()
    if isinstance(value, Mapping):
        return {key: plain(part) for key, part in value.items()}
    return value


def _json(value: Any) -> bytes:
    return (json.dumps(value, ensure_ascii=False) + "\n").encode()


def wav(samples: Tensor, rate: int) -> bytes:
    """16-bit WAV of samples in [-1, 1], 1-D or [S, channels]; what is louder is cut off."""
    file = io.BytesIO()
    data = samples.detach().cpu().float().clamp(-1.0, 1.0).numpy()
    soundfile.write(file, data, rate, format="WAV", subtype="PCM_16")
    return file.getvalue()


def npy(value: Tensor) -> bytes:
    """NumPy's own format, without pickle; bfloat16, which it does not know, as float32."""
    file = io.BytesIO()
    held = value.detach().cpu()
    array = held.numpy() if str(held.dtype) != "torch.bfloat16" else held.float().numpy()
    np.save(file, array, allow_pickle=False)
    return file.getvalue()


def png(image: Tensor) -> bytes:
    """8-bit PNG of [H, W] or [H, W, C] with 1, 3 or 4 channels; floats are in [0, 1]. Errors: ValueError."""
    pixels = image.detach().cpu()
    if pixels.is_floating_point():
        pixels = (pixels.float().clamp(0.0, 1.0) * 255).round()
    array = pixels.numpy().astype(np.uint8)
    array = array[..., None] if array.ndim == 2 else array
    kinds = {1: 0, 3: 2, 4: 6}
    if array.ndim != 3 or array.shape[2] not in kinds:
        raise ValueError(f"an image has shape [H, W, 1, 3 or 4], not {list(image.shape)}")
    height, width, channels = array.shape
    header = struct.pack(">IIBBBBB", width, height, 8, kinds[channels], 0, 0, 0)
    rows = np.concatenate([np.zeros((height, 1), np.uint8), array.reshape(height, -1)], axis=1)
    chunks = ((b"IHDR", header), (b"IDAT", zlib.compress(rows.tobytes(), 6)), (b"IEND", b""))
    return b"\x89PNG\r\n\x1a\n" + b"".join(_png_chunk(kind, body) for kind, body in chunks)


def _png_chunk(kind: bytes, body: bytes) -> bytes:
    return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))
