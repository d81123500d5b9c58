"""What ops and loops do to the ids that can occur: leaving ids out, replacing them, mixing two vocabularies."""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping
from dataclasses import replace

from omniflow_compiler.sizes import Size
from omniflow_compiler.types import Type


def without(type: Type, ids: Iterable[int]) -> Type:
    """The type when these ids never occur. Ids at the top of the vocabulary make it smaller."""
    if type.vocabulary is None or type.vocabulary.number is None:
        return type
    most = int(type.vocabulary.number)
    holes = type.holes | {i for i in ids if i < most}
    top = most
    while top - 1 in holes:
        top -= 1
    if top != most:
        holes = frozenset(i for i in holes if i < top)
    return replace(type, vocabulary=Size.of(top), holes=frozenset(holes))


def mixed(first: Type, second: Type) -> Type:
    """The first type with the ids of both; nothing is known when one of them may hold any id."""
    one, two = first.vocabulary, second.vocabulary
    if one is None:
        return first
    if two is None:
        return replace(first, vocabulary=None, holes=frozenset())
    if one.number is None or two.number is None:
        return first if one == two else replace(first, vocabulary=None, holes=frozenset())
    holes = {i for i in first.holes if i in second.holes or i >= two.number}
    holes |= {i for i in second.holes if i in first.holes or i >= one.number}
    return without(replace(first, vocabulary=max(one, two, key=_number), holes=frozenset()), holes)


def _number(size: Size) -> int:
    return int(size.number or 0)


LEFT_OUT: Mapping[tuple[str, str], tuple[str, ...]] = {  # op or loop kind and output port: attributes with ids
    ("strip", "tokens"): ("drop",),
    ("ar_decode", "tokens"): ("stop", "suppress"),
}
NO_IDS = frozenset({("add", "sum")})  # numbers that are computed from ids are no ids


def domain_of(type: Type, name: str, port: str, attributes: Mapping[str, object], fed: Container[str]) -> Type:
    """The type of an output with the ids that cannot occur taken out. `fed` are the ports that something feeds:

    ids on a loop's `forced` port are emitted whatever they are.
    """
    if (name, port) in NO_IDS and type.vocabulary is not None:
        return replace(type, vocabulary=None, holes=frozenset())
    keys = LEFT_OUT.get((name, port), ())
    if not keys or "forced" in fed:
        return type
    return without(type, [i for key in keys for i in _ids(attributes.get(key))])


def _ids(value: object) -> list[int]:
    return [i for i in value if isinstance(i, int)] if isinstance(value, tuple) else []
