"""Values as JSON carries them: text and numbers as they are, files as base64.

An input that is no text or JSON is a list of numbers, or a file: `{"base64": "...", "name": "question.wav"}`.
"""

from __future__ import annotations

import base64
import binascii
import tempfile
from collections.abc import Mapping
from pathlib import Path, PurePosixPath
from typing import Any

import torch
from torch import Tensor

from omniflow.artefacts import artefact, plain
from omniflow.errors import InputError
from omniflow.media import read_file
from omniflow.stream import Piece
from omniflow.values import Value, is_starred
from omniflow_compiler.schedule import Input, Output, PortType, Schedule

PLAIN = frozenset({"text", "json", "record", "scalar", "tokens", "codes"})
DATA = frozenset({"json", "record", "scalar"})
MEDIA = {".wav": "audio/wav", ".png": "image/png", ".npy": "application/x-npy"}
FILE_KEYS = frozenset({"base64", "name", "tensor"})


def read_values(schedule: Schedule, given: Mapping[str, Any]) -> dict[str, Any]:
    """Inputs as they came in JSON; unknown names stay for the engine to refuse. Errors: InputError."""
    declared = {spec.name: spec for spec in schedule.inputs}
    return {name: _read(declared[name], value) if name in declared else value for name, value in given.items()}


def _read(spec: Input, value: Any) -> Any:
    if spec.type.base in DATA:
        return value
    if isinstance(value, Mapping):
        return read_upload(spec, value)
    if is_starred(spec.type) and isinstance(value, list):
        return [read_upload(spec, item) if isinstance(item, Mapping) else item for item in value]
    return value


def read_upload(spec: Input, given: Mapping[str, Any]) -> Any:
    """The value of a file in base64; its name's suffix tells the format, `tensor` names one of a safetensors file.

    Errors: InputError.
    """
    texts = all(isinstance(value, str) for value in given.values())
    if not texts or "base64" not in given or given.keys() - FILE_KEYS:
        raise InputError(f'input {spec.name}: a file is {{"base64": ..., "name": "x.wav"}}, and may name a "tensor"')
    try:
        data = base64.b64decode(given["base64"], validate=True)
    except (binascii.Error, ValueError):
        raise InputError(f"input {spec.name}: its base64 cannot be read") from None
    suffix = PurePosixPath(given.get("name", "")).suffix[:16]
    with tempfile.TemporaryDirectory(prefix="omniflow-") as folder:
        path = Path(folder) / f"upload{suffix if suffix[1:].isalnum() else ''}"
        path.write_bytes(data)
        try:
            return read_file(spec, f"{path}#{given['tensor']}" if given.get("tensor") else str(path))
        except InputError as error:
            raise InputError(str(error).replace(str(path), "the file")) from None


def write_value(spec: Output, value: Value) -> Any:
    """A whole output: text, numbers, or `{"type": "audio/wav", "base64": ...}`."""
    if spec.type.base in PLAIN or is_starred(spec.type):
        return plain(value)
    file = artefact(spec, value)
    return _file(MEDIA[Path(file.name).suffix], file.data)


def write_piece(spec: Output, piece: Piece) -> dict[str, Any]:
    """A piece of an output; sound is 16-bit little-endian PCM, to be played one piece after another."""
    kind = spec.type
    body: dict[str, Any] = {"output": spec.name, "data": _piece_data(kind, piece.data)}
    if is_starred(kind):
        body |= {"item": piece.item, "ends_item": piece.ends_item}
    return body


def _piece_data(kind: PortType, data: Value) -> Any:
    if not isinstance(data, Tensor) or kind.base in PLAIN:
        return plain(data)
    if kind.base == "audio" and kind.rate_hz:
        return {**_file("audio/pcm", pcm(data)), "rate_hz": round(kind.rate_hz), "channels": channels_of(data)}
    return plain(data.float() if data.dtype is torch.bfloat16 else data)


def pcm(samples: Tensor) -> bytes:
    """16-bit little-endian samples of floats in [-1, 1]; what is louder is cut off."""
    scaled = samples.detach().cpu().float().clamp(-1.0, 1.0) * 32767
    return scaled.round().to(torch.int16).numpy().astype("<i2").tobytes()


def channels_of(samples: Tensor) -> int:
    """1 for [S], else those of [S, channels]."""
    return 1 if samples.ndim == 1 else samples.size(-1)


def base64_of(data: bytes) -> str:
    """As JSON carries bytes."""
    return base64.b64encode(data).decode("ascii")


def _file(kind: str, data: bytes) -> dict[str, Any]:
    return {"type": kind, "base64": base64_of(data)}
