"""What a document is once it is read: a tree of scalars, mappings and sequences, each with its place."""

from __future__ import annotations

from dataclasses import dataclass

from omniflow_compiler.source import Span

MAX_DEPTH = 64

ScalarValue = str | int | float | bool | None


@dataclass(frozen=True, slots=True)
class Scalar:
    """A scalar and the text it was written as."""

    value: ScalarValue
    span: Span
    written: str


@dataclass(frozen=True, slots=True)
class Entry:
    """A key's span and its value."""

    key: Span
    value: Tree


@dataclass(frozen=True, slots=True)
class Mapping:
    """A mapping with text keys, in the file's order. `uses_params` is false when no text in it begins with `$`;
    `repeats` counts the keys that were left out because they are there already.
    """

    entries: dict[str, Entry]
    span: Span
    uses_params: bool = True
    repeats: int = 0

    def get(self, key: str) -> Tree | None:
        entry = self.entries.get(key)
        return None if entry is None else entry.value


@dataclass(frozen=True, slots=True)
class Sequence:
    """A sequence. `uses_params` is false when no text in it begins with `$`."""

    items: tuple[Tree, ...]
    span: Span
    uses_params: bool = True


@dataclass(frozen=True, slots=True)
class Unread:
    """A value that cannot be used. Its fault was reported, and nothing else complains about it."""

    span: Span


Tree = Scalar | Mapping | Sequence | Unread


def plain(tree: Tree) -> object:
    """The tree without positions: dicts, lists and scalars. What cannot be used stays as it is."""
    if isinstance(tree, Scalar):
        return tree.value
    if isinstance(tree, Unread):
        return tree
    if isinstance(tree, Mapping):
        return {key: plain(entry.value) for key, entry in tree.entries.items()}
    return [plain(item) for item in tree.items]
