"""A directed graph of ids and its strongly connected parts.

networkx says the same of every graph (a test holds the two together) but takes 200 ms to import, which is more than all
the rest of `omniflow check` (`docs/decisions/0004-own-graph-and-schema-checker.md`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, KeysView


class Digraph:
    """Ids and arrows between them; an arrow that is added twice is there once."""

    __slots__ = ("_after", "_before", "_parts")

    def __init__(self, nodes: Iterable[str] = (), edges: Iterable[tuple[str, str]] = ()) -> None:
        self._after: dict[str, dict[str, None]] = {name: {} for name in nodes}
        self._before: dict[str, dict[str, None]] = {name: {} for name in self._after}
        self._parts: list[list[str]] | None = None
        for source, target in edges:
            self.add_edge(source, target)

    def add_edge(self, source: str, target: str) -> None:
        """Adds an arrow. Errors: KeyError when an end is no node of the graph."""
        self._parts = None
        before = self._before[target]
        self._after[source][target] = None
        before[source] = None

    def __iter__(self) -> Iterator[str]:
        return iter(self._after)

    def __len__(self) -> int:
        return len(self._after)

    def successors(self, name: str) -> KeysView[str]:
        """Where arrows from the node lead, in the order they were added."""
        return self._after[name].keys()

    def predecessors(self, name: str) -> KeysView[str]:
        """Where arrows to the node come from, in the order they were added."""
        return self._before[name].keys()

    def has_edge(self, source: str, target: str) -> bool:
        """Whether there is an arrow from source to target."""
        return target in self._after.get(source, {})

    def parts(self) -> list[list[str]]:
        """The strongly connected parts, found once: see `connected_parts`."""
        if self._parts is None:
            self._parts = _connected_parts(self)
        return self._parts


def connected_parts(graph: Digraph) -> list[list[str]]:
    """The strongly connected parts, each sorted, every part after those that lead to it. Not to be changed."""
    return graph.parts()


def _connected_parts(graph: Digraph) -> list[list[str]]:
    """The strongly connected parts, each sorted, every part after those that lead to it.

    Tarjan, "Depth-first search and linear graph algorithms" (1972), with a stack of its own so that the depth of a
    graph is not bounded by Python's. The order does not depend on the order in which the graph was built.
    """
    number: dict[str, int] = {}
    low: dict[str, int] = {}
    open_nodes: list[str] = []
    is_open: set[str] = set()
    parts: list[list[str]] = []
    for root in sorted(graph):
        if root in number:
            continue
        number[root] = low[root] = len(number)
        open_nodes.append(root)
        is_open.add(root)
        stack = [(root, iter(sorted(graph.successors(root))))]
        while stack:
            name, targets = stack[-1]
            for target in targets:
                if target not in number:
                    number[target] = low[target] = len(number)
                    open_nodes.append(target)
                    is_open.add(target)
                    stack.append((target, iter(sorted(graph.successors(target)))))
                    break
                if target in is_open:
                    low[name] = min(low[name], number[target])
            else:
                stack.pop()
                if stack:
                    parent = stack[-1][0]
                    low[parent] = min(low[parent], low[name])
                if low[name] == number[name]:
                    parts.append(_close(name, open_nodes, is_open))
    return parts[::-1]


def _close(name: str, open_nodes: list[str], is_open: set[str]) -> list[str]:
    """Takes the part that `name` is the root of off the stack of open nodes."""
    part = []
    while True:
        part.append(open_nodes.pop())
        is_open.discard(part[-1])
        if part[-1] == name:
            return sorted(part)
