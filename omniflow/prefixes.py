"""Which sequences of an expert begin with which tokens, so that a prompt can start from what another one has cached.

A tree of whole blocks of token ids finds the longest common beginning; its keys are the ids themselves, so a hit is a
comparison of every token and never of a hash. Bookkeeping alone: whoever owns the sequences copies and closes them.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass, field
from itertools import islice
from typing import NamedTuple
from weakref import WeakKeyDictionary

from omniflow.caches import Origin
from omniflow.roles import SequenceState

ID_BYTES = 8  # ids are int64, as bytes
MAX_LOOKED_AT = 64  # sequences that are compared beyond their last whole block, the newest first


@dataclass(slots=True, kw_only=True, eq=False)
class Entry:
    """A sequence and the ids it is filled with, as far as it is filled. One that is kept will not grow any more."""

    origin: Origin
    ids: bytes
    sequence: SequenceState
    is_kept: bool = False

    @property
    def num_valid(self) -> int:
        """Tokens of `ids` whose keys and values are there."""
        return min(len(self.ids) // ID_BYTES, self.sequence.num_cached)


class Hit(NamedTuple):
    """A sequence whose first tokens are the prompt's first tokens, and how many of them."""

    entry: Entry
    num_tokens: int


@dataclass(slots=True, eq=False)
class Branch:
    """A node of the tree: the sequences that go through it, and those that end less than a block behind it."""

    children: dict[bytes, Branch] = field(default_factory=dict)
    through: dict[int, Entry] = field(default_factory=dict)  # by identity of the sequence, the newest last
    ends: dict[int, Entry] = field(default_factory=dict)


class Prefixes:
    """The sequences of one expert that others may begin with: those in work, and finished ones that are kept."""

    def __init__(self, *, block_tokens: int) -> None:
        self.block = block_tokens * ID_BYTES
        self._roots: dict[Origin, Branch] = {}
        self._entries: dict[int, Entry] = {}  # by identity of the sequence
        self._kept: OrderedDict[int, Entry] = OrderedDict()  # the longest unused first

    @property
    def num_kept(self) -> int:
        """Finished sequences that still hold room."""
        return len(self._kept)

    def find(self, origin: Origin, ids: bytes, *, most: int) -> Hit | None:
        """The sequence that has the most of these ids at its beginning, of which it gives at most `most`."""
        best: Hit | None = None
        path = self._path(origin, ids[: most * ID_BYTES])
        for depth in range(len(path) - 1, -1, -1):
            for entry in islice(reversed(path[depth].through.values()), MAX_LOOKED_AT):
                count = min(_common(entry.ids, ids, depth * self.block, self.block), entry.num_valid, most)
                if count and (best is None or count > best.num_tokens):
                    best = Hit(entry, count)
            if best is not None and best.num_tokens * ID_BYTES >= depth * self.block:
                break
        if best is not None and best.entry.is_kept:
            self._kept.move_to_end(id(best.entry.sequence))
        return best

    def follow(self, origin: Origin, ids: bytes, sequence: SequenceState) -> None:
        """A sequence in work is being filled with these ids."""
        if id(sequence) not in self._entries:
            self._add(Entry(origin=origin, ids=ids, sequence=sequence))

    def keep(self, origin: Origin, ids: bytes, sequence: SequenceState) -> list[SequenceState]:
        """A finished sequence with these ids stays. Gives those that are not worth their room now: kept ones that it

        begins with; or itself, when a kept one begins with it or its weights are not the current ones any more.
        """
        entry = self._entries.get(id(sequence))
        is_stale = entry is not None and entry.origin != origin
        self.forget(sequence)
        path = self._path(origin, ids)
        if is_stale or not ids or any(other.is_kept and other.ids.startswith(ids) for other in self._over(path, ids)):
            return [sequence]
        covered = [other for branch in path for other in branch.ends.values() if other.is_kept]
        covered = [other for other in covered if ids.startswith(other.ids)]
        for other in covered:
            self.forget(other.sequence)
        self._add(Entry(origin=origin, ids=ids, sequence=sequence, is_kept=True))
        return [other.sequence for other in covered]

    def forget(self, sequence: SequenceState) -> None:
        """A sequence is closed."""
        entry = self._entries.pop(id(sequence), None)
        if entry is None:
            return
        self._kept.pop(id(sequence), None)
        path = self._path(entry.origin, entry.ids)
        path[-1].ends.pop(id(sequence))
        for branch in path:
            branch.through.pop(id(sequence))
        for depth in range(len(path) - 1, 0, -1):
            if not path[depth].through:
                del path[depth - 1].children[entry.ids[(depth - 1) * self.block : depth * self.block]]
        if not path[0].through:
            del self._roots[entry.origin]

    def take_oldest(self) -> SequenceState | None:
        """The kept sequence that was unused the longest, to be closed; None when none is kept."""
        if not self._kept:
            return None
        sequence = next(iter(self._kept.values())).sequence
        self.forget(sequence)
        return sequence

    def _add(self, entry: Entry) -> None:
        key = id(entry.sequence)
        self._entries[key] = entry
        if entry.is_kept:
            self._kept[key] = entry
        branch = self._roots.setdefault(entry.origin, Branch())
        branch.through[key] = entry
        for at in range(0, len(entry.ids) - self.block + 1, self.block):
            branch = branch.children.setdefault(entry.ids[at : at + self.block], Branch())
            branch.through[key] = entry
        branch.ends[key] = entry

    def _path(self, origin: Origin, ids: bytes) -> list[Branch]:
        """The branches of whole blocks of these ids, from the root on, as far as there are any."""
        branch, path = self._roots.get(origin), []
        at = 0
        while branch is not None:
            path.append(branch)
            at += self.block
            branch = branch.children.get(ids[at - self.block : at]) if at <= len(ids) else None
        return path

    def _over(self, path: list[Branch], ids: bytes) -> list[Entry]:
        """Sequences that may begin with all of these ids; none when the tree does not go that far."""
        is_whole = len(path) == len(ids) // self.block + 1
        return list(islice(reversed(path[-1].through.values()), MAX_LOOKED_AT)) if is_whole else []


def _common(a: bytes, b: bytes, start: int, length: int) -> int:
    """Tokens at the beginning of both, of which those up to byte `start` are known; looks `length` bytes further."""
    stop = min(len(a), len(b), start + length)
    at = start
    while at < stop and a[at : at + ID_BYTES] == b[at : at + ID_BYTES]:
        at += ID_BYTES
    return at // ID_BYTES


def prefixes_of(expert: object, block_tokens: int) -> Prefixes:
    """The sequences of an expert, whichever engines of this process they belong to: they share its room."""
    return _PREFIXES.setdefault(expert, Prefixes(block_tokens=block_tokens))


_PREFIXES: WeakKeyDictionary[object, Prefixes] = WeakKeyDictionary()
