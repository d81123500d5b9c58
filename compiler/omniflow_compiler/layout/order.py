"""In which order keys stand, per section of each kind of spec; keys not named here keep the author's order."""

from __future__ import annotations

from omniflow_compiler.validate import schema

FIRST = {
    "params": ("type", "of", "default", "min", "max", "help"),
    "components": ("use", "from", "dtype", "device"),
    "loops": ("kind", "binds", "cache"),
    "caches": ("kind", "max_bytes", "block_tokens", "reuse"),
    "inputs": ("type", "default", "min", "max", "limits", "help"),
    "nodes": ("op", "loop", "graph", "with"),
    "stages": ("program", "params"),
    "edges": (
        "chunk", "first_chunk", "left_context", "right_context", "capacity", "start", "when_empty", "back_edge",
    ),
}  # fmt: skip
LAST = {"loops": ("inner",), "nodes": ("each", "when")}
ALWAYS_OPEN = frozenset({*FIRST, "outputs", "devices", "dtypes", "budgets"})  # sections that go over several lines


def rank(kind: str, path: tuple[str, ...], key: str) -> int:
    """Where a key stands among its neighbours; equal ranks keep their order. `path` leads to the mapping."""
    if not path:
        known = list(schema(kind)["properties"])
        return known.index(key) if key in known else len(known)
    if len(path) != 2:
        return 0
    first, last = FIRST.get(path[0], ()), LAST.get(path[0], ())
    if key in first:
        return first.index(key) - len(first)
    return 1 + last.index(key) if key in last else 0
