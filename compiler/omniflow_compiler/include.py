"""Reads a card with the cards it includes: their components, loops, caches and params become its own."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping as MappingOf
from dataclasses import replace
from pathlib import Path
from typing import TypeVar

from omniflow_compiler import codes
from omniflow_compiler.costs import read_costs
from omniflow_compiler.diagnostics import Label, Report
from omniflow_compiler.files import Chain, open_spec
from omniflow_compiler.load.tree import Mapping, Scalar, plain
from omniflow_compiler.parse.card import parse_card
from omniflow_compiler.source import SourceSet
from omniflow_compiler.spec import CacheSpec, CardSpec, ComponentSpec, LoopSpec

Entry = TypeVar("Entry", ComponentSpec, LoopSpec, CacheSpec)


def read_card(
    path: Path,
    tree: Mapping,
    overrides: MappingOf[str, Scalar],
    sources: SourceSet,
    report: Report,
    chain: Chain | None = None,
) -> CardSpec:
    """The card of a document, everything it includes merged in; a name that two of them declare is reported."""
    chain = chain or Chain(paths=(path.resolve(),), names=())
    card = parse_card(tree, overrides, report)
    for name in card.includes:
        if report.is_full:
            break
        opened = open_spec(name, ("card",), chain, sources, report)
        if opened is not None:
            included = read_card(opened[0], opened[2], overrides, sources, report, chain.then(opened[0], name))
            card = _merge(card, included, report)
    return replace(_with_costs(card, path, sources, report), digest=_digest(tree, card))


def _with_costs(card: CardSpec, path: Path, sources: SourceSet, report: Report) -> CardSpec:
    """The card with what was measured of its components; its digest does not count that."""
    measured = read_costs(path, card.id.text, sources, report)
    if not measured:
        return card
    components = {
        name: replace(spec, measured=measured[name]) if name in measured else spec
        for name, spec in card.components.items()
    }
    return replace(card, components=components)


def _merge(card: CardSpec, included: CardSpec, report: Report) -> CardSpec:
    return replace(
        card,
        params={**included.params, **card.params},
        components=_merged(card.components, included.components, "component", report),
        loops=_merged(card.loops, included.loops, "loop", report),
        caches=_merged(card.caches, included.caches, "cache", report),
    )


def _merged(own: MappingOf[str, Entry], other: MappingOf[str, Entry], what: str, report: Report) -> dict[str, Entry]:
    for name in own:
        if name in other:
            label = Label(span=other[name].name.span, text="and in the included card")
            help = ["rename one of them"]
            report.add(
                codes.DUPLICATE_ID, own[name].name.span, f"{what} `{name}` is declared twice", labels=[label], help=help
            )
    return {**other, **own}


def _digest(tree: Mapping, card: CardSpec) -> str:
    """sha256 over the card's meaning: its content and its params' values, not its layout."""
    body = {"card": plain(tree), "params": dict(card.params)}
    return hashlib.sha256(json.dumps(body, sort_keys=True, default=str).encode()).hexdigest()
