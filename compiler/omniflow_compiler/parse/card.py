"""Turns the document of a card into its spec."""

from __future__ import annotations

from collections.abc import Iterator
from collections.abc import Mapping as MappingOf
from dataclasses import replace

from omniflow_compiler.diagnostics import Report
from omniflow_compiler.load.tree import Entry, Mapping, Scalar, Tree
from omniflow_compiler.params import substitute, values
from omniflow_compiler.parse.caches import parse_caches
from omniflow_compiler.parse.keys import (
    attributes_of,
    entries_at,
    items_at,
    keys_at,
    mapping_of,
    name_at,
    plain_at,
    plain_values,
    span_at,
    text_at,
)
from omniflow_compiler.parse.whole import unread
from omniflow_compiler.spec import CardSpec, ComponentSpec, InnerSpec, LoopSpec, Name
from omniflow_compiler.validate import validate


def parse_card(document: Mapping, overrides: MappingOf[str, Scalar], report: Report) -> CardSpec:
    """The card a document describes; entries that cannot be read are reported and left out."""
    params = values(document, "card", overrides, report)
    document = substitute(document, params, report)
    validate(document, "card", "", report, "the card")
    components = {name: _component(name, entry) for name, entry in entries_at(document, "components", "use")}
    loops = dict(_loops(document))
    caches = dict(parse_caches(document, report))
    known = {"components": components.keys(), "loops": loops.keys(), "caches": caches.keys()}
    return CardSpec(
        id=name_at(document, "id"),
        title=text_at(document, "title"),
        capabilities=_names(document, "capabilities"),
        includes=_names(document, "include"),
        params=plain_values(params),
        origins={name: param.span for name, param in params.items()},
        components=components,
        loops=loops,
        caches=caches,
        parity=plain_at(document, "parity"),
        span=document.span,
        declared=keys_at(document, "params"),
        unread=frozenset(unread(document, known)),
    )


def _component(name: str, entry: Entry) -> ComponentSpec:
    tree = mapping_of(entry)
    source = tree.get("from")
    return ComponentSpec(
        name=Name(text=name, span=entry.key),
        use=name_at(tree, "use"),
        source=str(source.value) if isinstance(source, Scalar) else None,
        source_span=tree.entries["from"].key if "from" in tree.entries else None,
        dtype=text_at(tree, "dtype") or "float32",
        device=text_at(tree, "device") or "cpu",
        dtype_span=span_at(tree, "dtype"),
        device_span=span_at(tree, "device"),
        attributes=attributes_of(tree, "use", "from", "dtype", "device"),
        span=tree.span,
    )


def _names(document: Mapping, key: str) -> tuple[Name, ...]:
    items = items_at(document, key)
    return tuple(Name(text=str(item.value), span=item.span) for item in items if isinstance(item, Scalar))


def _loops(document: Mapping) -> Iterator[tuple[str, LoopSpec]]:
    for name, entry in entries_at(document, "loops", "kind", "binds"):
        loop = _loop(name, entry)
        if loop.inner is not None or "inner" not in mapping_of(entry).entries:
            yield name, loop


def _loop(name: str, entry: Entry) -> LoopSpec:
    tree = mapping_of(entry)
    return LoopSpec(
        name=Name(text=name, span=entry.key),
        kind=name_at(tree, "kind"),
        binds=name_at(tree, "binds"),
        cache=name_at(tree, "cache") if tree.get("cache") is not None else None,
        inner=_inner(tree.get("inner")),
        attributes=attributes_of(tree, "kind", "binds", "cache", "inner"),
        span=tree.span,
    )


def _inner(tree: Tree | None) -> InnerSpec | None:
    """The inner loop; None when there is none or the schema has reported it."""
    feed = tree.get("feed") if isinstance(tree, Mapping) else None
    if not isinstance(tree, Mapping) or not isinstance(feed, Mapping) or not {"loop", "back"} <= set(tree.entries):
        return None
    return InnerSpec(
        loop=name_at(tree, "loop"),
        feed={port: replace(name_at(feed, port), span=entry.key) for port, entry in feed.entries.items()},
        back=name_at(tree, "back"),
    )
