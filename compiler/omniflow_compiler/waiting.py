"""Who waits for whom in a network of bounded channels, and whether that can go round in a circle.

A writer and a reader of a channel wait for each other: the reader's step i needs the writer's step i + lag, the
writer's step j needs the reader's step j - capacity. A circle of such waits along which the step does not sink is a
deadlock, and without one there is none (marked graphs: Commoner, Holt, Even and Pnueli, 1971). A reader that needs a
whole stream, or a whole item of one, waits for a step that is further off than any capacity.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

from omniflow_compiler.digraph import Digraph, connected_parts

Need = Literal["elements", "item", "whole"]
MAX_CIRCLES = 20  # reported in one run
MAX_STEPS = 4_000_000  # of the exact search for channels that must hold all


@dataclass(frozen=True, slots=True, kw_only=True)
class Link:
    """A channel. `need` is what the reader waits for: some elements, a whole item, the whole stream.

    lag: elements beyond the next one that must be there first; `tokens` are there from the beginning. capacity: unread
    elements (items when `counts_items`) at which the writer stops; None when it never does. is_fixed: the capacity is
    the author's, else it can be chosen.
    """

    key: int
    source: str
    target: str
    need: Need = "elements"
    lag: int = 0
    tokens: int = 0
    capacity: int | None = None
    counts_items: bool = False
    is_fixed: bool = False


class Wait(NamedTuple):
    """One step of a circle: over a channel to its reader (`forward`), or back to its writer."""

    link: Link
    forward: bool

    @property
    def start(self) -> str:
        return self.link.source if self.forward else self.link.target

    @property
    def end(self) -> str:
        return self.link.target if self.forward else self.link.source


Circle = tuple[Wait, ...]


def find_circles(links: Sequence[Link]) -> list[Circle]:
    """Circles of waits that cannot be resolved, one for each mistake; only channels of fixed capacity are at fault."""
    fixed = [link for link in links if link.capacity is not None and link.is_fixed]
    found = _far_circles(links, fixed, "whole")
    by_elements = [link for link in _besides(fixed, found) if not link.counts_items]
    found += _far_circles(links, by_elements, "item")
    return found + _near_circles(links, _besides(by_elements, found))


def _besides(links: Iterable[Link], found: Iterable[Circle]) -> list[Link]:
    """The links that no circle is blamed on: on those that stop their writers, or on a ring's first values."""
    blamed = {wait.link.key for circle in found for wait in circle if not wait.forward or wait.link.tokens}
    return [link for link in links if link.key not in blamed]


# -- readers that need a whole stream, or a whole item -----------------------------------------------------------------


def _far_circles(links: Sequence[Link], stopping: Sequence[Link], need: Need) -> list[Circle]:
    """Circles with a reader that needs everything and a writer that stops before."""
    links = [link for link in links if not link.tokens]
    found: list[Circle] = []
    while stopping and len(found) < MAX_CIRCLES:
        waits = _waits(links, stopping)
        part_of = _parts(waits)
        seen: set[int] = set()
        for link in links:
            part = part_of[link.source]
            if link.need == need and part == part_of[link.target] and part not in seen:
                seen.add(part)
                way = _shortest(link.target, link.source, waits, part_of)
                found.append((Wait(link, True), *way))
        if not seen:
            break
        stopping = _besides(stopping, found)
    return found


def _waits(links: Iterable[Link], stopping: Iterable[Link]) -> dict[str, list[Wait]]:
    """The waits that leave each node: over all channels forward, over those that stop their writer back."""
    waits: dict[str, list[Wait]] = {}
    for link in links:
        waits.setdefault(link.source, []).append(Wait(link, True))
        waits.setdefault(link.target, [])
    for link in stopping:
        waits[link.target].append(Wait(link, False))
    return waits


def _parts(waits: dict[str, list[Wait]]) -> dict[str, int]:
    """The number of the strongly connected part of each node."""
    graph = Digraph(waits, ((wait.start, wait.end) for leaving in waits.values() for wait in leaving))
    return {name: number for number, part in enumerate(connected_parts(graph)) for name in part}


def _shortest(start: str, end: str, waits: dict[str, list[Wait]], part_of: dict[str, int]) -> Circle:
    """The shortest way inside one part."""
    came: dict[str, Wait] = {}
    queue = deque([start])
    while queue and end not in came and start != end:
        for wait in waits[queue.popleft()]:
            if wait.end not in came and wait.end != start and part_of[wait.end] == part_of[start]:
                came[wait.end] = wait
                queue.append(wait.end)
    way: list[Wait] = []
    while end != start:
        way.append(came[end])
        end = came[end].start
    return tuple(reversed(way))


# -- readers that lag by some elements ---------------------------------------------------------------------------------


def _near_circles(links: Sequence[Link], stopping: list[Link]) -> list[Circle]:
    """Circles in which the lags of the readers add up to more than the capacities allow."""
    near = [link for link in links if link.need == "elements"]
    stopping = [link for link in stopping if link.need == "elements"]
    found: list[Circle] = []
    while len(found) < MAX_CIRCLES:
        rings = _besides([link for link in near if link.tokens], found)
        waits = _waits([link for link in near if not link.tokens] + rings, _besides(stopping, found))
        circles = [circle for part in _split(waits, _parts(waits)) if (circle := _sinking(part)) is not None]
        if not circles:
            break
        found += circles
    return found


def _split(waits: dict[str, list[Wait]], part_of: dict[str, int]) -> Iterator[dict[str, list[Wait]]]:
    """The parts that have waits inside, each by itself, nodes in the order in which values flow."""
    inside: dict[int, dict[str, list[Wait]]] = {}
    for name in sorted(waits, key=lambda name: (part_of[name], name)):
        kept = [wait for wait in waits[name] if part_of[wait.end] == part_of[name]]
        inside.setdefault(part_of[name], {})[name] = kept
    for part in inside.values():
        if any(part.values()):
            yield {name: part[name] for name in _flow(part)}


def _flow(part: dict[str, list[Wait]]) -> list[str]:
    """Names with writers before readers, where there is no ring."""
    graph = Digraph(part, ((w.start, w.end) for kept in part.values() for w in kept if w.forward))
    return [name for names in connected_parts(graph) for name in names]


def _sinking(part: dict[str, list[Wait]]) -> Circle | None:
    """A circle along which the step never sinks, found as a longest path that has no end (Bellman and Ford)."""
    scale = 1 + sum(map(len, part.values()))  # one more per wait, so that a sum of zero counts as well
    offset = dict.fromkeys(part, 0)
    came: dict[str, Wait] = {}
    for _ in range(len(part) + 1):
        is_settled = True
        for name, kept in part.items():
            for wait in kept:
                reached = offset[name] + _shift(wait) * scale + 1
                if reached > offset[wait.end]:
                    offset[wait.end], came[wait.end], is_settled = reached, wait, False
        if is_settled:
            return None
        circle = _circle_in(came)
        if circle is not None:
            return circle
    return None


def _shift(wait: Wait) -> int:
    """How many steps further off the end of a wait is than its start."""
    return wait.link.lag - wait.link.tokens if wait.forward else -(wait.link.capacity or 0)


def _circle_in(came: dict[str, Wait]) -> Circle | None:
    """A circle among the last waits that reached each node; there is one as soon as a path has no end."""
    state: dict[str, int] = {}
    for number, start in enumerate(came):
        name = start
        while name in came and name not in state:
            state[name] = number
            name = came[name].start
        if state.get(name) == number:
            circle = [came[name]]
            while circle[-1].start != name:
                circle.append(came[circle[-1].start])
            return tuple(reversed(circle))
    return None


# -- capacities that can be chosen -------------------------------------------------------------------------------------


def held_whole(links: Sequence[Link], *, items: bool = True) -> frozenset[int]:
    """Keys of the channels, of those whose capacity can be chosen, that must hold everything that comes.

    items: also those that must hold a whole item.
    """
    links = [link for link in links if not link.tokens]
    stopping = [link for link in links if link.capacity is not None]
    held = _held(links, stopping, "whole", frozenset())
    if not items:
        return held
    return held | _held(links, [link for link in stopping if not link.counts_items], "item", held)


def _held(links: Sequence[Link], stopping: Sequence[Link], need: Need, held: frozenset[int]) -> frozenset[int]:
    for choose in (_behind_late_starts, _all_of_them):
        part_of = _parts(_waits(links, [link for link in stopping if link.key not in held]))
        late = [link for link in links if link.need == need and part_of[link.source] == part_of[link.target]]
        if not late:
            break
        parts = {part_of[link.source] for link in late}
        inside = [k for k in links if part_of[k.source] == part_of[k.target] and part_of[k.source] in parts]
        keys = {link.key for link in inside}
        free = [k for k in stopping if k.key in keys and not k.is_fixed and k.key not in held]
        held |= choose(inside, late, free)
    return held


def _behind_late_starts(inside: Sequence[Link], late: Sequence[Link], free: Sequence[Link]) -> frozenset[int]:
    """Channels beside a way from their writer to their reader that passes a late start."""
    if min(len(late), len(free)) * (len(inside) + 1) > MAX_STEPS:
        return frozenset()
    after: dict[str, list[str]] = {}
    before: dict[str, list[str]] = {}
    for link in inside:
        after.setdefault(link.source, []).append(link.target)
        before.setdefault(link.target, []).append(link.source)
    held: set[int] = set()
    if len(late) <= len(free):
        for start in late:
            leading, following = _reached(start.source, before), _reached(start.target, after)
            held |= {link.key for link in free if link.source in leading and link.target in following}
        return frozenset(held)
    for link in free:
        leading, following = _reached(link.target, before), _reached(link.source, after)
        if any(start.source in following and start.target in leading for start in late):
            held.add(link.key)
    return frozenset(held)


def _reached(start: str, arrows: dict[str, list[str]]) -> set[str]:
    seen, stack = {start}, [start]
    while stack:
        for name in arrows.get(stack.pop(), ()):
            if name not in seen:
                seen.add(name)
                stack.append(name)
    return seen


def _all_of_them(_: Sequence[Link], __: Sequence[Link], free: Sequence[Link]) -> frozenset[int]:
    return frozenset(link.key for link in free)


def least_capacities(links: Sequence[Link]) -> dict[int, int]:
    """For each channel whose capacity can be chosen, the least with which no circle of lags is left."""
    near = [link for link in links if link.need == "elements"]
    fixed = [k for k in near if k.is_fixed and k.capacity is not None and not k.counts_items]
    waits = _waits(near, fixed)
    scale = 1 + len(near) + len(fixed)
    offset = dict.fromkeys(waits, 0)
    order = _flow(waits)
    for _ in range(len(fixed) + 2):
        is_settled = True
        for name in order:
            for wait in waits[name]:
                reached = offset[name] + _shift(wait) * scale + 1
                if reached > offset[wait.end]:
                    offset[wait.end], is_settled = reached, False
        if is_settled:
            break
    chosen = [link for link in near if link.capacity is not None and not link.is_fixed]
    return {k.key: max(1, -((offset[k.source] - offset[k.target] - 1) // scale)) for k in chosen}
