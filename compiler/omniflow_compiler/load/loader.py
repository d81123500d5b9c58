"""Composes the nodes of a text with PyYAML's C parser, which says nothing of what a plain scalar is."""

from __future__ import annotations

import yaml

TEXT = "tag:yaml.org,2002:str"
_TAGS: dict[type[yaml.Node], str] = {
    yaml.ScalarNode: TEXT, yaml.SequenceNode: "tag:yaml.org,2002:seq", yaml.MappingNode: "tag:yaml.org,2002:map",
}  # fmt: skip


class Loader(yaml.CSafeLoader):
    """Composes nodes without resolving plain scalars."""

    yaml_implicit_resolvers = {}  # noqa: RUF012  (the name is PyYAML's)

    def resolve(self, kind: type[yaml.Node], value: str | None, implicit: bool | tuple[bool, bool]) -> str:  # noqa: ARG002
        """The tag of a node that has none; `scalars.py` finds out what a plain scalar is."""
        return _TAGS[kind]


def has_tag(node: yaml.Node, kind: str) -> bool:
    """Whether a node has no tag of its own, or one that says what it is anyway."""
    return node.tag in (f"tag:yaml.org,2002:{kind}", "!")
