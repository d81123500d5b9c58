"""Features that encoders gave before, by everything they depend on; kept within bytes, the longest unused go first."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import blake2b

import torch
from torch import Tensor

Tensors = Mapping[str, Tensor]


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """What was encoded and what came of it. num_bytes counts both."""

    expert: str
    inputs: Tensors
    features: Tensors
    num_bytes: int


class FeatureCache:
    """Shared by the encode loops of an engine, which has one card. `max_bytes` 0 keeps nothing.

    A key has the component's name, the version of its weights, and the inputs' dtypes, shapes and content; on a hit the
    inputs are compared whole, so equal digests of unequal content do no harm.
    """

    def __init__(self, *, max_bytes: int = 0) -> None:
        self.max_bytes = max_bytes
        self.num_bytes = 0
        self.num_hits = 0
        self._entries: OrderedDict[bytes, Entry] = OrderedDict()
        self._versions: dict[str, int] = {}

    def __len__(self) -> int:
        return len(self._entries)

    def find(self, expert: str, inputs: Tensors) -> Tensors | None:
        """The features of equal inputs, if they are there."""
        if not self._entries:
            return None
        key = self._key(expert, inputs)
        entry = self._entries.get(key)
        if entry is None or not _is_same(entry.inputs, inputs):
            return None
        self._entries.move_to_end(key)
        self.num_hits += 1
        return entry.features

    def keep(self, expert: str, inputs: Tensors, features: Tensors) -> None:
        """Keeps features, dropping others for them; those larger than the whole cache are not kept."""
        size = _num_bytes(inputs) + _num_bytes(features)
        if not self.max_bytes or size > self.max_bytes:
            return
        key = self._key(expert, inputs)
        self._drop(key)
        while self.num_bytes + size > self.max_bytes:
            self._drop(next(iter(self._entries)))
        self._entries[key] = Entry(expert=expert, inputs=inputs, features=features, num_bytes=size)
        self.num_bytes += size

    def forget(self, expert: str) -> None:
        """The component's weights have changed: what they gave before is worth nothing now."""
        self._versions[expert] = self._versions.get(expert, 0) + 1
        for key in [key for key, entry in self._entries.items() if entry.expert == expert]:
            self._drop(key)

    def _drop(self, key: bytes) -> None:
        entry = self._entries.pop(key, None)
        if entry is not None:
            self.num_bytes -= entry.num_bytes

    def _key(self, expert: str, inputs: Tensors) -> bytes:
        digest = blake2b(f"{expert}\0{self._versions.get(expert, 0)}".encode(), digest_size=16)
        for name in sorted(inputs):
            value = inputs[name]
            digest.update(f"\0{name}\0{value.dtype}\0{tuple(value.shape)}\0".encode())
            digest.update(value.detach().cpu().contiguous().flatten().view(torch.uint8).numpy())
        return digest.digest()


def _is_same(a: Tensors, b: Tensors) -> bool:
    return a.keys() == b.keys() and all(a[name].dtype == b[name].dtype and torch.equal(a[name], b[name]) for name in a)


def _num_bytes(tensors: Tensors) -> int:
    return sum(value.numel() * value.element_size() for value in tensors.values())
