"""Reads Whisper weights in CTranslate2's binary format and names them as transformers' Whisper does.

The format (CTranslate2, `python/ctranslate2/specs/model_spec.py`, binary version 6): version, spec name, revision, then
tensors (name, rank, sizes, type, bytes) and aliases, little-endian, names as length-prefixed and zero-ended.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import BinaryIO

import numpy as np
import torch
from torch import Tensor

_DTYPES = {0: np.float32, 1: np.int8, 2: np.int16, 3: np.int32, 4: np.float16}
_FUSED = {"/self_attention/linear_0": ("self_attn", "qkv"), "/attention/linear_1": ("encoder_attn", "kv")}
_RENAMES = (
    ("self_attention/layer_norm", "self_attn_layer_norm"),
    ("attention/layer_norm", "encoder_attn_layer_norm"),
    ("ffn/layer_norm", "final_layer_norm"),
    ("self_attention/linear_1", "self_attn/out_proj"),
    ("attention/linear_0", "encoder_attn/q_proj"),
    ("attention/linear_2", "encoder_attn/out_proj"),
    ("ffn/linear_0", "fc1"),
    ("ffn/linear_1", "fc2"),
    ("gamma", "weight"),
    ("beta", "bias"),
    ("position_encodings/encodings", "embed_positions/weight"),
    ("decoder/embeddings", "decoder/embed_tokens"),
)


def read_tensors(path: Path) -> dict[str, Tensor]:
    """The tensors of a CTranslate2 `model.bin` by their CTranslate2 names, as float32 or int32."""
    with path.open("rb") as file:
        _number(file, "I"), _name(file), _number(file, "I")
        return dict(_tensor(file) for _ in range(_number(file, "I")))


def whisper_state(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The state dict of transformers' WhisperForConditionalGeneration, without the tied `proj_out.weight`."""
    return {name: part for key, tensor in tensors.items() for name, part in _parts(key, tensor)}


def _parts(key: str, tensor: Tensor) -> Iterator[tuple[str, Tensor]]:
    if not key.endswith(("weight", "bias", "gamma", "beta", "encodings")):
        return  # numbers that describe the model
    for fused, (attention, letters) in _FUSED.items():
        if fused in key:
            for letter, part in zip(letters, tensor.chunk(len(letters)), strict=True):
                if (letter, key.rpartition("/")[2]) != ("k", "bias"):  # keys have no bias; the fused one is zero
                    yield _rename(key.replace(fused, f"/{attention}/{letter}_proj")), part
            return
    yield _rename(key), tensor


def _rename(key: str) -> str:
    for old, new in _RENAMES:
        key = key.replace(old, new)
    return "model." + re.sub(r"/layer_(\d+)", r"/layers/\1", key).replace("/", ".")


def _tensor(file: BinaryIO) -> tuple[str, Tensor]:
    name = _name(file)
    sizes = [_number(file, "I") for _ in range(_number(file, "B"))]
    dtype = np.dtype(_DTYPES[_number(file, "B")])
    values = np.frombuffer(file.read(_number(file, "I")), dtype).reshape(sizes)
    return name, torch.from_numpy(values.astype(np.float32 if dtype.kind == "f" else np.int32))


def _name(file: BinaryIO) -> str:
    return file.read(_number(file, "H")).rstrip(b"\0").decode()


def _number(file: BinaryIO, code: str) -> int:
    layout = struct.Struct("<" + code)
    (value,) = layout.unpack(file.read(layout.size))
    return int(value)
