"""Ids that a spec says never come (`stop`, `suppress`, `drop`), and the edges whose types rely on it."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Any

from omniflow_compiler.library.domains import LEFT_OUT
from omniflow_compiler.schedule import Channel, Node, Schedule


def broken_promise(schedule: Schedule, node: Node, name: str, value: Any) -> str | None:
    """What relies on ids that a node would no longer leave out if its attribute had this value; None when nothing does.

    The compiler has taken them out of the vocabulary that it proved to fit every reader.
    """
    for port in node.outputs:
        if name in LEFT_OUT.get((node.name, port.name), ()):
            exposed = _ids(node, name) - set(value)
            for channel in _carrying(schedule, f"{node.id}.{port.name}", exposed):
                most = channel.type.vocabulary
                beyond = [i for i in sorted(exposed) if most is not None and i >= most]
                if beyond:
                    return f"has to keep id {beyond[0]}: edge {channel.id} ({channel.place}) relies on ids below {most}"
    return None


def _carrying(schedule: Schedule, source: str, ids: Collection[int]) -> Iterator[Channel]:
    """The edges that ids from a port may travel on: through ops that pass them, not through those that change them."""
    nodes = {node.id: node for node in schedule.nodes}
    sources, seen = [(source, ids)] if ids else [], {source}
    while sources:
        source, ids = sources.pop()
        for channel in schedule.channels:
            if channel.source == source and channel.type.vocabulary is not None:
                yield channel
                for port, rest in _passed(nodes[channel.node], channel.type.vocabulary, ids):
                    if rest and port not in seen:
                        seen.add(port)
                        sources.append((port, rest))


def _passed(node: Node, vocabulary: int, ids: Collection[int]) -> Iterator[tuple[str, Collection[int]]]:
    """The ports of an op at which ids come out again, and which of them."""
    for port in node.outputs if node.kind == "op" else ():
        left_out = {i for name in LEFT_OUT.get((node.name, port.name), ()) for i in _ids(node, name)}
        most = port.type.vocabulary
        if most is not None and (left_out or most >= vocabulary):
            yield f"{node.id}.{port.name}", [i for i in ids if i not in left_out]


def _ids(node: Node, name: str) -> set[int]:
    value = node.attributes.get(name)
    return {i for i in value if isinstance(i, int)} if isinstance(value, list | tuple) else set()
