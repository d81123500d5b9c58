"""The native step behind typed calls: everything that C++ takes on trust is checked here."""

from __future__ import annotations

import ctypes
import functools
import logging
import weakref
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from pathlib import Path

import torch
from torch import Tensor

from omniflow.native.build import library

_LOG = logging.getLogger(__name__)

MAX_ROW = 32768  # kMaxRow in step.cpp
MAX_HEAD = 512  # kMaxHead in attention.h
_Floats = ctypes.c_void_p


class Kind(IntEnum):
    """How weights are held.

    int8: symmetric per output row; int4: a scale and a least weight per output row and 32 columns, the head as int8.
    With both, activations are int8 as they come, symmetric per token and 64 columns.
    """

    FLOAT32 = 0
    BFLOAT16 = 1
    INT8 = 2
    INT4 = 3


class NativeShape(ctypes.Structure):
    """Sizes of a dense decoder; the C++ `Shape`."""

    _fields_ = (
        *((name, ctypes.c_int64) for name in ("hidden", "inner", "heads", "kv_heads", "head_dim", "vocab")),
        ("epsilon", ctypes.c_float),
        ("kind", ctypes.c_int32),
    )

    hidden: int
    inner: int
    heads: int
    kv_heads: int
    head_dim: int
    vocab: int
    epsilon: float
    kind: int


_LAYER_PARTS = (
    *("attention_norm", "qkv", "qkv_bias", "query_norm", "key_norm", "output", "output_bias"),
    *("mlp_norm", "gate_up", "gate_up_bias", "down", "down_bias"),
)


class _LayerSource(ctypes.Structure):
    _fields_ = tuple((name, _Floats) for name in _LAYER_PARTS)


class _Step(ctypes.Structure):
    _fields_ = (
        *((name, ctypes.c_int64) for name in ("rows", "num_spans", "num_wanted", "num_taps", "num_additions")),
        ("arena_tokens", ctypes.c_int64),
        *((name, ctypes.c_int32) for name in ("cache_is_bf16", "embeds_are_bf16", "threads")),
        *((name, ctypes.c_void_p) for name in ("embeds", "cosines", "sines", "embed_rows", "rotation_rows")),
        *((name, ctypes.c_void_p) for name in ("spans", "wanted", "logits", "hidden", "best")),
        *((name, ctypes.c_void_p) for name in ("tap_layers", "taps", "additions", "keys", "values")),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class StepInput:
    """One flat batch of T rows.

    spans: (row, count, past, start) each, covering the rows in order; wanted: rows for logits. embeds: float32 or
    bfloat16 [N, E]; cosines, sines: float32 [P, D / 2]; embed_rows, rotation_rows: T numbers each, which of N and of P
    a row takes; keys, values: [layers, tokens, kv_heads, D].
    """

    embeds: Tensor
    embed_rows: Sequence[int]
    cosines: Tensor
    sines: Tensor
    rotation_rows: Sequence[int]
    spans: Sequence[tuple[int, int, int, int]]
    wanted: Sequence[int]
    wants_hidden: bool
    tap_layers: Sequence[int]
    additions: Sequence[Tensor]
    keys: Tensor
    values: Tensor


@dataclass(frozen=True, slots=True, kw_only=True)
class StepOutput:
    """logits: float32 [wanted, V]; hidden: float32 [T, E]; taps: float32 [T, E] each.

    best: of each wanted row the id of its largest logit, the first of equal ones; -1 unless all are finite.
    """

    logits: Tensor | None
    best: Sequence[int]
    hidden: Tensor | None
    taps: tuple[Tensor, ...]


@functools.cache
def load_native() -> ctypes.CDLL | None:
    """The compiled step, or None where it cannot be had."""
    path = library()
    return None if path is None else open_library(path)


def open_library(path: Path) -> ctypes.CDLL | None:
    """The functions of a library that `library` built, typed; None when it cannot be loaded."""
    try:
        native = ctypes.CDLL(str(path))
    except OSError as error:
        _LOG.warning("the native step cannot be loaded (%s); using plain torch", error)
        return None
    native.omniflow_new.restype = ctypes.c_void_p
    native.omniflow_new.argtypes = [ctypes.POINTER(NativeShape)]
    native.omniflow_free.argtypes = [ctypes.c_void_p]
    native.omniflow_add_layer.argtypes = [ctypes.c_void_p, ctypes.POINTER(_LayerSource)]
    native.omniflow_finish.argtypes = [ctypes.c_void_p, _Floats, _Floats]
    native.omniflow_step.argtypes = [ctypes.c_void_p, ctypes.POINTER(_Step)]
    return native


class NativeModel:
    """A dense decoder's packed weights and its step. Calls from several threads take turns."""

    def __init__(self, native: ctypes.CDLL, shape: NativeShape) -> None:
        widest = max(shape.hidden, shape.inner, shape.heads * shape.head_dim)
        if widest > MAX_ROW or shape.head_dim > MAX_HEAD or shape.head_dim % 2:
            raise ValueError(f"rows are longer than {MAX_ROW}, heads longer than {MAX_HEAD}, or head_dim is odd")
        self._native = native
        self._shape = shape
        self._handle = native.omniflow_new(ctypes.byref(shape))
        self._num_layers = 0
        self._has_head = False
        self._is_whole = False
        weakref.finalize(self, native.omniflow_free, self._handle)

    def add_layer(self, parts: Mapping[str, Tensor | None]) -> None:
        """Packs one layer. parts: the fields of LayerSource, [rows, columns] each. Errors: ValueError."""
        shape = self._shape
        expected = _layer_sizes(shape)
        held = {name: _floats(parts.get(name), expected[name], name) for name in _LAYER_PARTS}
        pointers = _LayerSource(*(None if part is None else part.data_ptr() for part in held.values()))
        self._native.omniflow_add_layer(self._handle, ctypes.byref(pointers))
        self._num_layers += 1

    def finish(self, *, norm: Tensor, head: Tensor | None) -> None:
        """Packs the final norm [E] and the vocabulary head [V, E]."""
        shape = self._shape
        norm_held = _floats(norm, (shape.hidden,), "norm")
        head_held = _floats(head, (shape.vocab, shape.hidden), "head")
        assert norm_held is not None
        self._native.omniflow_finish(
            self._handle, norm_held.data_ptr(), None if head_held is None else head_held.data_ptr()
        )
        self._has_head = head_held is not None
        self._is_whole = True

    def step(self, batch: StepInput, *, threads: int) -> StepOutput:
        """One forward over the batch. Errors: ValueError for anything out of bounds, before C++ sees it."""
        self._check(batch)
        shape, rows = self._shape, len(batch.embed_rows)
        logits = torch.empty(len(batch.wanted), shape.vocab) if batch.wanted else None
        hidden = torch.empty(rows, shape.hidden) if batch.wants_hidden else None
        taps = tuple(torch.empty(rows, shape.hidden) for _ in batch.tap_layers)
        spans, wanted = _int64s([n for span in batch.spans for n in span]), _int64s(batch.wanted)
        embed_rows, rotation_rows = _int64s(batch.embed_rows), _int64s(batch.rotation_rows)
        tap_layers, best = _int64s(batch.tap_layers), (ctypes.c_int64 * len(batch.wanted))()
        tap_pointers, addition_pointers = _pointers(taps), _pointers(batch.additions)
        step = _Step(
            rows=rows,
            num_spans=len(batch.spans),
            num_wanted=len(batch.wanted),
            num_taps=len(taps),
            num_additions=len(batch.additions),
            arena_tokens=batch.keys.shape[1],
            cache_is_bf16=batch.keys.dtype == torch.bfloat16,
            embeds_are_bf16=batch.embeds.dtype == torch.bfloat16,
            threads=threads,
            embeds=batch.embeds.data_ptr(),
            cosines=batch.cosines.data_ptr(),
            sines=batch.sines.data_ptr(),
            embed_rows=ctypes.addressof(embed_rows),
            rotation_rows=ctypes.addressof(rotation_rows),
            spans=ctypes.addressof(spans),
            wanted=ctypes.addressof(wanted),
            logits=None if logits is None else logits.data_ptr(),
            hidden=None if hidden is None else hidden.data_ptr(),
            best=ctypes.addressof(best),
            tap_layers=ctypes.addressof(tap_layers),
            taps=ctypes.addressof(tap_pointers),
            additions=ctypes.addressof(addition_pointers),
            keys=batch.keys.data_ptr(),
            values=batch.values.data_ptr(),
        )
        self._native.omniflow_step(self._handle, ctypes.byref(step))
        return StepOutput(logits=logits, best=tuple(best), hidden=hidden, taps=taps)

    def _check(self, batch: StepInput) -> None:
        shape, rows = self._shape, len(batch.embed_rows)
        if not self._is_whole:
            raise ValueError("the model is not finished")
        num_embeds, num_rotations = batch.embeds.shape[0], batch.cosines.shape[0]
        _require("embeds", batch.embeds, (num_embeds, shape.hidden), (torch.float32, torch.bfloat16))
        for name, turns in (("cosines", batch.cosines), ("sines", batch.sines)):
            _require(name, turns, (num_rotations, shape.head_dim // 2), (torch.float32,))
        _require_rows("embeds", batch.embed_rows, rows, num_embeds)
        _require_rows("cosines and sines", batch.rotation_rows, rows, num_rotations)
        for addition in batch.additions:
            _require("additions", addition, (rows, shape.hidden), (torch.float32,))
        arena = (self._num_layers, batch.keys.shape[1], shape.kv_heads, shape.head_dim)
        for name, cache in (("keys", batch.keys), ("values", batch.values)):
            fits = cache.dtype == batch.keys.dtype and cache.dtype in (torch.float32, torch.bfloat16)
            if not fits or tuple(cache.shape) != arena or not cache.is_contiguous() or cache.device.type != "cpu":
                raise ValueError(f"{name} must be contiguous {list(arena)} float32 or bfloat16 on the CPU")
        self._check_indices(batch, rows, arena[1])

    def _check_indices(self, batch: StepInput, rows: int, tokens: int) -> None:
        at = 0
        for row, count, past, start in batch.spans:
            if row != at or count < 1 or past < 0 or start < 0 or start + past + count > tokens:
                raise ValueError(f"span {(row, count, past, start)} leaves the arena of {tokens} tokens or the batch")
            at += count
        if at != rows or rows < 1:
            raise ValueError(f"the spans cover {at} of {rows} rows")
        if batch.wanted and (not self._has_head or not all(0 <= row < rows for row in batch.wanted)):
            raise ValueError("logits are wanted of a row that does not exist, or of a decoder without a head")
        if len(batch.wanted) > rows:
            raise ValueError("more logits are wanted than there are rows")
        limit = self._num_layers
        if len(batch.additions) > limit or not all(0 <= layer < limit for layer in batch.tap_layers):
            raise ValueError(f"taps and additions must belong to the {limit} layers")


def _layer_sizes(shape: NativeShape) -> dict[str, tuple[int, ...]]:
    attended = shape.heads * shape.head_dim
    width = attended + 2 * shape.kv_heads * shape.head_dim
    return {
        "attention_norm": (shape.hidden,),
        "qkv": (width, shape.hidden),
        "qkv_bias": (width,),
        "query_norm": (shape.head_dim,),
        "key_norm": (shape.head_dim,),
        "output": (shape.hidden, attended),
        "output_bias": (shape.hidden,),
        "mlp_norm": (shape.hidden,),
        "gate_up": (2 * shape.inner, shape.hidden),
        "gate_up_bias": (2 * shape.inner,),
        "down": (shape.hidden, shape.inner),
        "down_bias": (shape.hidden,),
    }


_OPTIONAL = frozenset({"qkv_bias", "query_norm", "key_norm", "output_bias", "gate_up_bias", "down_bias", "head"})


def _floats(tensor: Tensor | None, size: tuple[int, ...], name: str) -> Tensor | None:
    """A float32 copy (or the tensor itself) to take a pointer of."""
    if tensor is None:
        if name not in _OPTIONAL:
            raise ValueError(f"{name} is missing")
        return None
    if tuple(tensor.shape) != size:
        raise ValueError(f"{name} has shape {list(tensor.shape)}, expected {list(size)}")
    return tensor.detach().to(device="cpu", dtype=torch.float32).contiguous()


def _require(name: str, tensor: Tensor, shape: tuple[int, ...], dtypes: Sequence[torch.dtype]) -> None:
    is_plain = tensor.dtype in dtypes and tensor.device.type == "cpu" and tensor.is_contiguous()
    if not is_plain or tuple(tensor.shape) != shape:
        names = " or ".join(str(dtype).removeprefix("torch.") for dtype in dtypes)
        raise ValueError(f"{name} must be contiguous {names} {list(shape)} on the CPU, not {list(tensor.shape)}")


def _require_rows(name: str, chosen: Sequence[int], rows: int, count: int) -> None:
    if len(chosen) != rows or (rows and not 0 <= min(chosen) <= max(chosen) < count):
        raise ValueError(f"{len(chosen)} of {rows} rows choose among {count} {name}, or one that is not there")


def _int64s(numbers: Sequence[int]) -> ctypes.Array[ctypes.c_int64]:
    return (ctypes.c_int64 * len(numbers))(*numbers)


def _pointers(tensors: Sequence[Tensor]) -> ctypes.Array[ctypes.c_void_p]:
    return (ctypes.c_void_p * len(tensors))(*(tensor.data_ptr() for tensor in tensors))
