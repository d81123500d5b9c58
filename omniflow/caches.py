"""Where a cached value comes from: the part of every cache's key that is not content.

What one request computed another may take over only when card, component, weights, dtype and content are the same. A
component whose weights are updated in place gets another `weights`, so that nothing of before can be found again.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path
from typing import Any
from weakref import WeakKeyDictionary

from omniflow_compiler.schedule import Expert, Schedule

MAX_FILES = 10_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Origin:
    """All that a cached value depends on beside its content. weights: a digest of which files they came from, and how
    often they have been updated since.
    """

    card: str
    component: str
    weights: str
    dtype: str


class Origins:
    """The origins of a loaded schedule's components. Updates are counted per expert, by whichever engine they come."""

    def __init__(self, schedule: Schedule, experts: Mapping[str, Any]) -> None:
        self._card = schedule.card
        self._specs = {spec.name: spec for spec in schedule.experts}
        self._experts = experts

    def of(self, component: str) -> Origin:
        """The origin of what the component computes now. Errors: KeyError for one that the schedule does not name."""
        spec, expert = self._specs[component], self._experts[component]
        if expert not in _WEIGHTS:
            _WEIGHTS[expert] = weights_of(spec)
        updates = _UPDATES.get(expert, 0)
        weights = f"{_WEIGHTS[expert]}+{updates}" if updates else _WEIGHTS[expert]
        return Origin(card=self._card, component=component, weights=weights, dtype=spec.dtype)

    def update(self, component: str) -> None:
        """The component's weights are not what they were. Errors: KeyError."""
        expert = self._experts[self._specs[component].name]
        _UPDATES[expert] = _UPDATES.get(expert, 0) + 1


_UPDATES: WeakKeyDictionary[Any, int] = WeakKeyDictionary()  # of this process, as experts are
_WEIGHTS: WeakKeyDictionary[Any, str] = WeakKeyDictionary()  # as they were when the expert was first asked for


def weights_of(spec: Expert) -> str:
    """A digest of the component as the card writes it and of its checkpoint's files: their names, sizes and times."""
    digest = blake2b(spec.digest.encode(), digest_size=16)
    folder = Path(spec.source) if spec.source is not None else None
    if folder is not None and folder.exists():
        for name, size, time in _files(folder):
            digest.update(f"\0{name}\0{size}\0{time}".encode())
    return digest.hexdigest()


def _files(place: Path) -> Iterable[tuple[str, int, int]]:
    found = [place] if place.is_file() else sorted(path for path in place.rglob("*") if path.is_file())
    for path in found[:MAX_FILES]:
        stat = path.stat()
        yield str(path.relative_to(place)), stat.st_size, stat.st_mtime_ns
