"""The order of the needed nodes: topological, the same whatever order the file has."""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator

from omniflow_compiler.graph import Edge, ProgramGraph


def topological_order(graph: ProgramGraph, needed: set[str]) -> Iterator[str]:
    """Kahn's algorithm with ties by id."""
    waiting = {n: sum(s in needed for s in {*graph.graph.predecessors(n)}) for n in needed}
    ready = sorted(name for name, count in waiting.items() if count == 0)
    while ready:
        name = heapq.heappop(ready)
        yield name
        for target in set(graph.graph.successors(name)):
            if target in waiting:
                waiting[target] -= 1
                if waiting[target] == 0:
                    heapq.heappush(ready, target)


def edges_into(graph: ProgramGraph, order: Iterable[str]) -> Iterator[Edge]:
    """The edges that enter these nodes."""
    for name in order:
        yield from graph.incoming[name]


def depths(graph: ProgramGraph, order: Iterable[str]) -> dict[str, int]:
    """The longest distance of each node from one that nothing feeds."""
    found: dict[str, int] = {}
    for name in order:
        found[name] = 1 + max((found.get(before, -1) for before in graph.graph.predecessors(name)), default=-1)
    return found
