"""Checks that a loop's cache is of the kind that the loop can use, and that its expert can do what the cache asks."""

from __future__ import annotations

import math
from collections.abc import Mapping

from omniflow_compiler import codes
from omniflow_compiler.checkpoint import read_part
from omniflow_compiler.codebooks import lag_of, sequences_of
from omniflow_compiler.diagnostics import Label, Report
from omniflow_compiler.graph import Component
from omniflow_compiler.quantities import show_bytes
from omniflow_compiler.spec import CacheSpec, CardSpec, LoopSpec

KINDS = {"ar_decode": "paged_kv", "score": "paged_kv", "encode": "features"}  # the kind of cache by kind of loop
WHAT = {"paged_kv": "keys and values", "features": "what an encoder gave"}
PROMPT = 1  # tokens that every prompt has at least


def check_cache(
    loop: LoopSpec, component: Component, card: CardSpec, attributes: Mapping[str, object], report: Report
) -> None:
    """Reports a cache of another kind, one that the expert would not use, a beginning that cannot be reused, and room

    for less than one sequence.
    """
    cache = card.caches.get(loop.cache.text) if loop.cache is not None else None
    if loop.cache is None or cache is None or cache.kind not in WHAT:
        return
    declared = [Label(span=cache.name.span, text=f"a cache of kind `{cache.kind}`")]
    if cache.kind != KINDS.get(loop.kind.text):
        message = f"loop `{loop.name.text}` of kind `{loop.kind.text}` cannot use cache `{cache.name.text}`"
        report.add(codes.CACHE_KIND, loop.cache.span, message, labels=declared, help=_fitting(loop, card, cache))
    elif not component.signature.leases:
        message = (
            f"`{component.signature.use}` keeps its keys and values itself and would not use cache `{cache.name.text}`"
        )
        help = [f"leave `cache` out of loop `{loop.name.text}`"]
        report.add(codes.CACHE_UNREAD, loop.cache.span, message, labels=declared, help=help)
    elif cache.reuse == "prefix" and not component.signature.forks:
        use = component.signature.use
        report.add(
            codes.CACHE_REUSE,
            loop.cache.span,
            f"`{use}` cannot begin a sequence with what another one has cached, and cache `{cache.name.text}` says so",
            labels=[Label(span=cache.name.span, text="`reuse: prefix` is written here")],
            help=[f"give loop `{loop.name.text}` a cache of its own, without `reuse`"],
        )
    elif cache.kind == "paged_kv":
        _check_room(loop, component, cache, attributes, report)


def _check_room(
    loop: LoopSpec, component: Component, cache: CacheSpec, attributes: Mapping[str, object], report: Report
) -> None:
    """A sequence leases its prompt and its bound at once; a bound that depends on other loops may still fit.

    Codebooks that are behind need as many tokens more, and guidance a second sequence.
    """
    size, written = component.kv_bytes_per_token, loop.attributes.get("max_tokens")
    most, lag = attributes.get("max_tokens"), lag_of(attributes)
    size *= sequences_of(attributes)
    if cache.block_tokens < 1 or written is None or not isinstance(most, int):
        return  # reported where they are read, or known only when other loops have ended
    if not size or not _is_certain(component):
        return
    tokens = math.ceil(cache.max_bytes // size / cache.block_tokens) * cache.block_tokens
    least = most + lag + PROMPT
    if least <= tokens:
        return
    need = math.ceil(least / cache.block_tokens) * cache.block_tokens * size
    help = [f"write `max_bytes: {_size(need)}` or more, and what longer prompts need"]
    if tokens > PROMPT + lag:
        help.append(f"or `max_tokens: {tokens - lag - PROMPT}` or less in loop `{loop.name.text}`")
    report.add(
        codes.CACHE_ROOM,
        cache.bytes_span,
        f"cache `{cache.name.text}` holds {tokens} tokens of `{component.signature.use}`, and every sequence of loop "
        f"`{loop.name.text}` needs {least} at least",
        note=f"{show_bytes(size)} a token",
        labels=[Label(span=written.span, text=f"{most} new tokens, behind a prompt")],
        help=help,
    )


def _is_certain(component: Component) -> bool:
    """Whether what a token takes is known, and not assumed for want of a checkpoint."""
    size = component.signature.kv_bytes_per_token
    return isinstance(size, int) or bool(read_part(component.spec.source, size.file))


def _size(num_bytes: int) -> str:
    """As it may be written in a card, rounded up to whole units."""
    unit, name = ((1 << 20), "MiB") if num_bytes >= 1 << 20 else ((1 << 10), "KiB")
    return f"{math.ceil(num_bytes / unit)} {name}"


def _fitting(loop: LoopSpec, card: CardSpec, cache: CacheSpec) -> list[str]:
    help = [f"a `{cache.kind}` cache holds {WHAT[cache.kind]}"]
    kind = KINDS.get(loop.kind.text)
    if kind is None:
        return [*help, "leave `cache` out"]
    fitting = sorted(name for name, other in card.caches.items() if other.kind == kind)
    found = ", ".join(f"`{name}`" for name in fitting)
    return [*help, f"caches of kind `{kind}`: {found}" if fitting else f"declare one of `kind: {kind}`"]
