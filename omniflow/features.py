"""Features that encoders gave before, by everything they depend on; kept within bytes, the longest unused go first."""

from __future__ import annotations

import json
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from hashlib import blake2b

import torch
from torch import Tensor

from omniflow.caches import Origin
from omniflow.values import Shared, Value

Inputs = Mapping[str, Value]
Features = Mapping[str, Tensor]


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """What was encoded and what came of it. num_bytes counts both."""

    origin: Origin
    inputs: Inputs
    features: Features
    num_bytes: int


class FeatureCache:
    """One cache of kind `features`. A key is an origin and the inputs' types, shapes and content.

    On a hit the inputs are compared whole, so equal digests of unequal content do no harm. What it gives is shared:
    whoever reads it must not write.
    """

    def __init__(self, *, max_bytes: int) -> None:
        self.max_bytes = max_bytes
        self.num_bytes = 0
        self._entries: OrderedDict[bytes, Entry] = OrderedDict()

    def __len__(self) -> int:
        return len(self._entries)

    def find(self, origin: Origin, inputs: Inputs) -> Features | None:
        """The features of equal inputs, if they are there."""
        key = _key(origin, inputs) if self._entries else None
        entry = None if key is None else self._entries.get(key)
        if key is None or entry is None or entry.origin != origin or not is_same(entry.inputs, inputs):
            return None
        self._entries.move_to_end(key)
        return entry.features

    def keep(self, origin: Origin, inputs: Inputs, features: Features) -> None:
        """Keeps features of their own memory, dropping others for them; not those larger than the whole cache."""
        key = _key(origin, inputs)
        size = num_bytes(inputs) + num_bytes(features)
        if key is None or size > self.max_bytes:
            return
        self._drop(key)
        while self.num_bytes + size > self.max_bytes:
            self._drop(next(iter(self._entries)))
        own = {name: value.clone() for name, value in features.items()}  # not a view that holds its whole batch
        self._entries[key] = Entry(origin=origin, inputs=dict(inputs), features=own, num_bytes=size)
        self.num_bytes += size

    def drop(self, component: str | None = None) -> None:
        """Drops what a component gave, or all."""
        for key, entry in list(self._entries.items()):
            if component in (None, entry.origin.component):
                self._drop(key)

    def recount(self) -> int:
        """Bytes counted anew."""
        return sum(num_bytes(entry.inputs) + num_bytes(entry.features) for entry in self._entries.values())

    def _drop(self, key: bytes) -> None:
        entry = self._entries.pop(key, None)
        if entry is not None:
            self.num_bytes -= entry.num_bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Shelf:
    """An encoder's place in a cache."""

    cache: FeatureCache
    origin: Callable[[], Origin]  # of what is computed now

    def find(self, inputs: Inputs) -> Features | None:
        """What the encoder gave for equal inputs."""
        return self.cache.find(self.origin(), inputs)

    def keep(self, inputs: Inputs, features: Features) -> None:
        """What it gave now."""
        self.cache.keep(self.origin(), inputs, features)


def _key(origin: Origin, inputs: Inputs) -> bytes | None:
    """A digest; None for inputs that are held by reference and have no content of their own."""
    digest = blake2b(repr(origin).encode(), digest_size=16)
    for name in sorted(inputs):
        digest.update(f"\0{name}\0".encode())
        for value in _parts(inputs[name]):
            if isinstance(value, Shared):
                return None
            if isinstance(value, Tensor):
                digest.update(f"{value.dtype}\0{tuple(value.shape)}\0".encode())
                digest.update(value.detach().cpu().contiguous().flatten().view(torch.uint8).numpy().data)
            else:
                digest.update(json.dumps(value, sort_keys=True, default=str).encode())
    return digest.digest()


def _parts(value: Value) -> Sequence[Value]:
    return value if isinstance(value, tuple | list) else (value,)


def is_same(a: Inputs, b: Inputs) -> bool:
    """Whether inputs are equal in every element, type and shape."""
    return a.keys() == b.keys() and all(_is_equal(a[name], b[name]) for name in a)


def _is_equal(a: Value, b: Value) -> bool:
    if isinstance(a, Tensor) or isinstance(b, Tensor):
        return isinstance(a, Tensor) and isinstance(b, Tensor) and a.dtype == b.dtype and torch.equal(a, b)
    if isinstance(a, tuple | list) and isinstance(b, tuple | list):
        return len(a) == len(b) and all(map(_is_equal, a, b))
    return type(a) is type(b) and bool(a == b)


def num_bytes(values: Mapping[str, Value]) -> int:
    """Bytes of tensors; of other values the size of their text."""
    total = 0
    for value in values.values():
        for part in _parts(value):
            total += part.numel() * part.element_size() if isinstance(part, Tensor) else len(str(part))
    return total
