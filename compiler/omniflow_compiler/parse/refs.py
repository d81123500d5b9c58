"""References to nodes and ports as they are written: `node.port`, or the name of an input or a node."""

from __future__ import annotations

import re

from omniflow_compiler.load.tree import Mapping, Scalar, Sequence, Tree

_NAME = r"[^\s.:>~-][^\s.:>~]*"
REF = rf"{_NAME}(?:\.{_NAME})?"
_REF = re.compile(REF)


def mentions(tree: Tree) -> list[str]:
    """Everything in a tree that may be meant as a reference."""
    return _REF.findall(_all_text(tree))


def _all_text(tree: Tree) -> str:
    """Every text in a tree, keys too."""
    if isinstance(tree, Scalar):
        return tree.written
    if isinstance(tree, Mapping):
        return " ".join(f"{key} {_all_text(entry.value)}" for key, entry in tree.entries.items())
    return " ".join(_all_text(item) for item in tree.items) if isinstance(tree, Sequence) else ""
