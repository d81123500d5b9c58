"""Reads one key of a mapping, as what a spec wants it to be; what has another form is as good as absent."""

from __future__ import annotations

from collections.abc import Iterator
from collections.abc import Mapping as MappingOf

from omniflow_compiler.load.tree import Entry, Mapping, Scalar, ScalarValue, Sequence, Tree, plain
from omniflow_compiler.params import Value
from omniflow_compiler.source import Span
from omniflow_compiler.spec import Attribute, Name


def name_at(tree: Mapping, key: str) -> Name:
    """The scalar there as a name; empty, at the begin of the mapping, when there is none."""
    value = tree.get(key)
    if isinstance(value, Scalar):
        return Name(text=str(value.value), span=value.span)
    return Name(text="", span=tree.span.start)


def text_at(tree: Mapping, key: str) -> str:
    """The scalar there as a text; empty when there is none."""
    value = tree.get(key)
    return str(value.value) if isinstance(value, Scalar) and value.value is not None else ""


def items_at(tree: Mapping, key: str) -> tuple[Tree, ...]:
    """The items of the sequence there."""
    value = tree.get(key)
    return value.items if isinstance(value, Sequence) else ()


def plain_at(tree: Mapping, key: str) -> dict[str, object]:
    """The mapping there without places."""
    value = tree.get(key)
    return {k: plain(e.value) for k, e in value.entries.items()} if isinstance(value, Mapping) else {}


def entries_at(tree: Mapping, key: str, *needed: str) -> Iterator[tuple[str, Entry]]:
    """The entries of the mapping of mappings there that have the keys needed to go on."""
    section = tree.get(key)
    for name, entry in section.entries.items() if isinstance(section, Mapping) else ():
        found = entry.value
        if isinstance(found, Mapping) and all(_is_name(found.get(k), k) for k in needed):
            yield name, entry


def _is_name(tree: Tree | None, key: str) -> bool:
    if not isinstance(tree, Scalar) or isinstance(tree.value, bool):
        return False
    return isinstance(tree.value, str | int if key == "max_bytes" else str)


def mapping_of(entry: Entry) -> Mapping:
    """The value of an entry that `entries_at` gave."""
    assert isinstance(entry.value, Mapping)
    return entry.value


def attributes_of(tree: Mapping, *own: str) -> dict[str, Attribute]:
    """What is in a mapping besides its own keys."""
    return {
        key: Attribute(value=plain(entry.value), key_span=entry.key, span=entry.value.span)
        for key, entry in tree.entries.items()
        if key not in own
    }


def span_at(tree: Mapping, key: str) -> Span | None:
    """The place of the value there."""
    value = tree.get(key)
    return None if value is None else value.span


def count_at(tree: Mapping, key: str) -> int:
    """How many entries the mapping there has."""
    section = tree.get(key)
    return len(section.entries) if isinstance(section, Mapping) else 0


def keys_at(tree: Mapping, key: str) -> dict[str, Span]:
    """The keys of the mapping there, with their places."""
    section = tree.get(key)
    return {name: entry.key for name, entry in section.entries.items()} if isinstance(section, Mapping) else {}


def plain_values(params: MappingOf[str, Value]) -> dict[str, ScalarValue]:
    """The params without places; None for one that cannot be read."""
    return {name: param.value if isinstance(param, Scalar) else None for name, param in params.items()}
