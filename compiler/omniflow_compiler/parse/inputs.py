"""Reads the inputs of a program or workflow."""

from __future__ import annotations

from collections.abc import Iterator

from omniflow_compiler.load.tree import Mapping, Scalar, Tree
from omniflow_compiler.parse.keys import name_at, text_at
from omniflow_compiler.spec import Bound, InputSpec, Limit, Name


def parse_inputs(document: Mapping) -> Iterator[tuple[str, InputSpec]]:
    """The inputs by name."""
    section = document.get("inputs")
    for name, entry in section.entries.items() if isinstance(section, Mapping) else ():
        yield name, _input(Name(text=name, span=entry.key), entry.value)


def _input(name: Name, tree: Tree) -> InputSpec:
    if isinstance(tree, Scalar):
        written = Name(text=str(tree.value), span=tree.span)
        return InputSpec(name=name, type=written, has_default=False, default=None, help="")
    tree = tree if isinstance(tree, Mapping) else Mapping({}, tree.span)
    default = tree.get("default")
    return InputSpec(
        name=name,
        type=name_at(tree, "type"),
        has_default=isinstance(default, Scalar),
        default=default.value if isinstance(default, Scalar) else None,
        default_span=None if default is None else default.span,
        help=text_at(tree, "help"),
        limits=dict(_limits(tree.get("limits"))),
        least=_bound(tree.get("min")),
        most=_bound(tree.get("max")),
    )


def _limits(section: Tree | None) -> Iterator[tuple[str, Limit]]:
    for name, entry in section.entries.items() if isinstance(section, Mapping) else ():
        value = entry.value.value if isinstance(entry.value, Scalar) else None
        if isinstance(value, int) and not isinstance(value, bool):  # the schema has said so of others
            yield name, Limit(axis=Name(text=name, span=entry.key), most=value)


def _bound(tree: Tree | None) -> Bound | None:
    if not isinstance(tree, Scalar) or not isinstance(tree.value, int | float) or isinstance(tree.value, bool):
        return None  # the schema has said so
    return Bound(number=tree.value, span=tree.span)
