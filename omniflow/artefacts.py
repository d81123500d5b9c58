"""Outputs as files: text, WAV, PNG (moving for clips), JSON and NPY, with nothing lost that the format can hold."""

from __future__ import annotations

import io
import json
import struct
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
import soundfile
from torch import Tensor

from omniflow.values import Value, is_starred
from omniflow_compiler.schedule import Output, PortType

PNG = b"\x89PNG\r\n\x1a\n"
PNG_COLOURS = {1: 0, 3: 2, 4: 6}  # channels to PNG's colour type
FRAMES_PER_SECOND = 24.0  # of clips whose type does not tell


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
    if kind.base == "video" and len(value):
        return ".png", animation(value, kind.rate_hz or FRAMES_PER_SECOND)
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
    array = _bytes_of(image, image.ndim)
    chunks = ((b"IHDR", _png_header(array)), (b"IDAT", _png_rows(array)), (b"IEND", b""))
    return PNG + b"".join(_png_chunk(kind, body) for kind, body in chunks)


def animation(frames: Tensor, rate: float) -> bytes:
    """Animated PNG of frames [F, H, W, C] at `rate` a second, over and over; where that is unknown, the first shows.

    Chunks acTL, fcTL and fdAT of the PNG specification (third edition). Errors: ValueError.
    """
    arrays = [_bytes_of(frame, 3) for frame in frames]
    height, width, _ = arrays[0].shape
    delay = Fraction(1 / rate).limit_denominator(65535)
    chunks = [(b"IHDR", _png_header(arrays[0])), (b"acTL", struct.pack(">II", len(arrays), 0))]
    number = 0
    for i, array in enumerate(arrays):
        control = (number, width, height, 0, 0, delay.numerator, delay.denominator, 0, 0)
        chunks.append((b"fcTL", struct.pack(">IIIIIHHBB", *control)))
        number += 1
        rows = _png_rows(array)
        if i == 0:
            chunks.append((b"IDAT", rows))
        else:
            chunks.append((b"fdAT", struct.pack(">I", number) + rows))
            number += 1
    return PNG + b"".join(_png_chunk(kind, body) for kind, body in (*chunks, (b"IEND", b"")))


def _bytes_of(image: Tensor, num_axes: int) -> np.ndarray[Any, np.dtype[np.uint8]]:
    """[H, W, C] in whole numbers from 0 to 255."""
    pixels = image.detach().cpu()
    if pixels.is_floating_point():
        pixels = (pixels.float().clamp(0.0, 1.0) * 255).round()
    array = pixels.numpy().astype(np.uint8)
    array = array[..., None] if array.ndim == 2 and num_axes == 2 else array
    if array.ndim != 3 or array.shape[2] not in PNG_COLOURS:
        raise ValueError(f"an image has shape [H, W, 1, 3 or 4], not {list(image.shape)}")
    return array


def _png_header(array: np.ndarray[Any, np.dtype[np.uint8]]) -> bytes:
    height, width, channels = array.shape
    return struct.pack(">IIBBBBB", width, height, 8, PNG_COLOURS[channels], 0, 0, 0)


def _png_rows(array: np.ndarray[Any, np.dtype[np.uint8]]) -> bytes:
    height = array.shape[0]
    rows = np.concatenate([np.zeros((height, 1), np.uint8), array.reshape(height, -1)], axis=1)
    return zlib.compress(rows.tobytes(), 6)


def _png_chunk(kind: bytes, body: bytes) -> bytes:
    return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))
