"""Lints of a card: components, loops and caches that no program of it uses, params that nothing reads."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from omniflow_compiler import codes
from omniflow_compiler.diagnostics import Report
from omniflow_compiler.source import Span
from omniflow_compiler.spec import CardSpec, ProgramSpec


@dataclass(frozen=True, slots=True, kw_only=True)
class Uses:
    """What programs mention by name."""

    loops: frozenset[str]
    components: frozenset[str]

    def __or__(self, other: Uses) -> Uses:
        return Uses(loops=self.loops | other.loops, components=self.components | other.components)


def uses_of(program: ProgramSpec) -> Uses:
    """What the nodes of a program mention; `$thinker.audio` in an attribute mentions the component."""
    nodes = program.nodes.values()
    numbers = {
        name for node in nodes for attribute in node.attributes.values() for name in _references(attribute.value)
    }
    return Uses(
        loops=frozenset(node.name.text for node in nodes if node.kind == "loop"),
        components=frozenset({node.component.text for node in nodes if node.component is not None} | numbers),
    )


def _references(value: object) -> Iterable[str]:
    items = value if isinstance(value, list) else [value]
    return [match[1] for item in items if isinstance(item, str) and (match := re.match(r"\$([^\s.$]+)\.", item))]


def is_all_used(card: CardSpec, uses: Uses) -> bool:
    """Whether nothing of the card's own is left over."""
    return not any((_loops(card, uses), _components(card, uses)))


def check_unused(card: CardSpec, uses: Uses, report: Report) -> None:
    """Reports what the card declares in its own file and nothing uses. `uses` has all programs of the card."""
    for name in _loops(card, uses):
        help = ["remove it, or write a program with a node for it"]
        report.add(codes.UNUSED_LOOP, card.loops[name].name.span, f"no program uses loop `{name}`", help=help)
    for name in _components(card, uses):
        help = ["remove it, or bind it by a loop or an op"]
        span = card.components[name].name.span
        report.add(codes.UNUSED_COMPONENT, span, f"no program uses component `{name}`", help=help)
    leased = {loop.cache.text for loop in card.loops.values() if loop.cache is not None}
    for name, cache in card.caches.items():
        if name not in leased and cache.name.span.file == card.span.file:
            help = ["remove it, or name it as the `cache` of a loop"]
            report.add(codes.UNUSED_CACHE, cache.name.span, f"no loop leases from cache `{name}`", help=help)


def _loops(card: CardSpec, uses: Uses) -> list[str]:
    if not uses.loops <= card.loops.keys():
        return []  # the name that is not there may be meant for one of them
    inner = {loop.inner.loop.text for loop in card.loops.values() if loop.inner is not None}
    own = (name for name, loop in card.loops.items() if loop.name.span.file == card.span.file)
    return [name for name in own if name not in uses.loops and name not in inner]


def _components(card: CardSpec, uses: Uses) -> list[str]:
    """Components that no loop binds and no program names; one whose loop is unused is that loop's affair."""
    if not uses.components <= card.components.keys():
        return []  # the name that is not there may be meant for one of them
    bound = {loop.binds.text for loop in card.loops.values()}
    told = {name for loop in card.loops.values() for a in loop.attributes.values() for name in _references(a.value)}
    own = (name for name, spec in card.components.items() if spec.name.span.file == card.span.file)
    return [name for name in own if name not in bound | told | uses.components]


def check_unused_params(declared: Mapping[str, Span], texts: Iterable[str], report: Report) -> None:
    """Reports params that no text mentions, as `$name` or as `params.name` in a condition."""
    for name in unread(declared, texts):
        help = [f"use it as `${name}`, or remove it"]
        report.add(codes.UNUSED_PARAM, declared[name], f"nothing reads param `{name}`", help=help)


def unread(declared: Mapping[str, Span], texts: Iterable[str]) -> list[str]:
    """The params that no text mentions."""
    mentioned: set[str] = set()
    for text in texts if declared else ():
        mentioned.update(_MENTIONED.findall(text))
    return [name for name in declared if name not in mentioned]


_MENTIONED = re.compile(r"(?:\$|\bparams\.)([A-Za-z0-9_-]+)")
