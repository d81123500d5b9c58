"""Checks that a loop's cache is of the kind that the loop can use, and that its expert can do what the cache asks."""

from __future__ import annotations

from omniflow_compiler import codes
from omniflow_compiler.diagnostics import Label, Report
from omniflow_compiler.graph import Component
from omniflow_compiler.spec import CacheSpec, CardSpec, LoopSpec

KINDS = {"ar_decode": "paged_kv", "encode": "features"}  # the kind of cache by kind of loop
WHAT = {"paged_kv": "keys and values", "features": "what an encoder gave"}


def check_cache(loop: LoopSpec, component: Component, card: CardSpec, report: Report) -> None:
    """Reports a cache of another kind, and a beginning that cannot be reused."""
    cache = card.caches.get(loop.cache.text) if loop.cache is not None else None
    if loop.cache is None or cache is None or cache.kind not in WHAT:
        return
    declared = [Label(span=cache.name.span, text=f"a cache of kind `{cache.kind}`")]
    if cache.kind != KINDS.get(loop.kind.text):
        message = f"loop `{loop.name.text}` of kind `{loop.kind.text}` cannot use cache `{cache.name.text}`"
        report.add(codes.CACHE_KIND, loop.cache.span, message, labels=declared, help=_fitting(loop, card, cache))
    elif cache.reuse == "prefix" and not component.signature.forks:
        use = component.signature.use
        report.add(
            codes.CACHE_REUSE,
            loop.cache.span,
            f"`{use}` cannot begin a sequence with what another one has cached, and cache `{cache.name.text}` says so",
            labels=[Label(span=cache.name.span, text="`reuse: prefix` is written here")],
            help=[f"give loop `{loop.name.text}` a cache of its own, without `reuse`"],
        )


def _fitting(loop: LoopSpec, card: CardSpec, cache: CacheSpec) -> list[str]:
    help = [f"a `{cache.kind}` cache holds {WHAT[cache.kind]}"]
    kind = KINDS.get(loop.kind.text)
    if kind is None:
        return [*help, "leave `cache` out"]
    fitting = sorted(name for name, other in card.caches.items() if other.kind == kind)
    found = ", ".join(f"`{name}`" for name in fitting)
    return [*help, f"caches of kind `{kind}`: {found}" if fitting else f"declare one of `kind: {kind}`"]
