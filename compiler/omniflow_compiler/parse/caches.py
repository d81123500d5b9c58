"""Reads the caches of a card."""

from __future__ import annotations

from collections.abc import Iterator

from omniflow_compiler import codes
from omniflow_compiler.diagnostics import Report
from omniflow_compiler.load.tree import Mapping, Scalar
from omniflow_compiler.parse.keys import entries_at, mapping_of, text_at
from omniflow_compiler.quantities import parse_bytes
from omniflow_compiler.spec import CacheSpec, Name


def parse_caches(document: Mapping, report: Report) -> Iterator[tuple[str, CacheSpec]]:
    """The caches by name; a size that cannot be read is reported and taken as small."""
    for name, entry in entries_at(document, "caches", "kind", "max_bytes"):
        tree = mapping_of(entry)
        size = tree.entries["max_bytes"].value
        assert isinstance(size, Scalar)
        max_bytes = parse_bytes(size.value) if isinstance(size.value, str | int) else None
        if max_bytes is None:
            help = ["write a number of bytes, or a size such as `256 MiB`"]
            report.add(codes.BAD_VALUE, size.span, f"`{size.written}` is no size in bytes", help=help)
        block = tree.get("block_tokens")
        yield (
            name,
            CacheSpec(
                name=Name(text=name, span=entry.key),
                kind=text_at(tree, "kind"),
                max_bytes=max_bytes or 1 << 20,
                bytes_span=size.span,
                block_tokens=block.value if isinstance(block, Scalar) and isinstance(block.value, int) else 16,
                reuse="" if text_at(tree, "kind") == "features" else text_at(tree, "reuse"),
            ),
        )
        _check_keys(name, tree, report)


def _check_keys(name: str, tree: Mapping, report: Report) -> None:
    """Features are kept whole and by content: nothing of theirs is in blocks or begins another."""
    for key in ("block_tokens", "reuse") if text_at(tree, "kind") == "features" else ():
        if key in tree.entries:
            message = f"`{key}` in cache `{name}`, which is of kind `features`"
            report.add(codes.UNKNOWN_KEY, tree.entries[key].key, message, help=["it is for `kind: paged_kv` alone"])
