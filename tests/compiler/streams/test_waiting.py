from __future__ import annotations

import time
from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st

from omniflow_compiler.waiting import Link, find_circles, held_whole, least_capacities

ITEM = 48  # elements of an item in the simulation, more than all capacities of a network together
ITEMS = 20


def runs_dry(links: list[Link]) -> bool:
    """Passes tokens until nothing moves: whether some node never gets to its end."""
    names = sorted({name for link in links for name in (link.source, link.target)})
    entering = {name: [link for link in links if link.target == name] for name in names}
    leaving = {name: [link for link in links if link.source == name] for name in names}
    done = dict.fromkeys(names, 0)
    total = ITEM * ITEMS
    moved = True
    while moved:
        moved = False
        for name in names:
            while done[name] < total and _may_step(done[name], done, entering[name], leaving[name]):
                done[name] += 1
                moved = True
    return any(count < total for count in done.values())


def _may_step(step: int, done: dict[str, int], entering: list[Link], leaving: list[Link]) -> bool:
    end = (step // ITEM + 1) * ITEM
    for link in entering:
        here = done[link.source] + link.tokens
        needed = {"whole": ITEM * ITEMS, "item": end, "elements": min(end, step + 1 + link.lag)}[link.need]
        if min(here, ITEM * ITEMS) < needed:
            return False
    return not any(_is_full(link, step, done) for link in leaving)


def _is_full(link: Link, step: int, done: dict[str, int]) -> bool:
    if link.capacity is None:
        return False
    taken = done[link.target]
    if link.counts_items:
        return step // ITEM - -(-taken // ITEM) >= link.capacity
    return step - taken >= link.capacity


@st.composite
def networks(draw: st.DrawFn, free: bool = False) -> list[Link]:
    size = draw(st.integers(2, 6))
    links = []
    for key in range(draw(st.integers(1, 8))):
        source = draw(st.integers(0, size - 2))
        target = draw(st.integers(source + 1, size - 1))
        need = draw(st.sampled_from(["elements", "elements", "elements", "item", "whole"]))
        stops = draw(st.booleans()) and need != "whole"
        links.append(
            Link(
                key=key,
                source=f"n{source}",
                target=f"n{target}",
                need=need,
                lag=draw(st.integers(0, 3)) if need == "elements" else 0,
                capacity=draw(st.integers(1, 2 if need == "item" else 5)) if stops else None,
                counts_items=stops and need == "item",
                is_fixed=stops and not (free and draw(st.booleans())),
            )
        )
    return links


@settings(max_examples=200, deadline=None)
@given(networks())
def test_the_verdict_equals_a_simulation(links: list[Link]) -> None:
    assert bool(find_circles(links)) == runs_dry(links)


@settings(max_examples=200, deadline=None)
@given(networks())
def test_a_network_without_what_the_circles_blame_runs_through(links: list[Link]) -> None:
    blamed = {wait.link.key for circle in find_circles(links) for wait in circle if not wait.forward}
    mended = [replace(k, capacity=None, counts_items=False) if k.key in blamed else k for k in links]
    assert not runs_dry(mended)


@settings(max_examples=300, deadline=None)
@given(networks(free=True))
def test_chosen_capacities_run_through_unless_fixed_ones_are_at_fault(links: list[Link]) -> None:
    held, least = held_whole(links), least_capacities(links)
    chosen = []
    for link in links:
        if link.capacity is not None and not link.is_fixed:
            capacity = None if link.key in held else 1 if link.counts_items else least.get(link.key, 1)
            link = replace(link, capacity=capacity, counts_items=link.counts_items and capacity is not None)
        chosen.append(link)
    assert runs_dry(chosen) == bool(find_circles(links))


@settings(max_examples=300, deadline=None)
@given(st.integers(1, 4), st.integers(0, 4), st.integers(0, 4), st.integers(1, 4))
def test_a_ring_needs_more_first_values_than_its_readers_lag(size: int, lag: int, more: int, tokens: int) -> None:
    links = [Link(key=i, source=f"n{i}", target=f"n{i + 1}", lag=more if i == 0 else 0) for i in range(size)]
    links.append(Link(key=size, source=f"n{size}", target="n0", lag=lag, tokens=tokens))
    assert bool(find_circles(links)) == (lag + more >= tokens)
    assert bool(find_circles(links)) == runs_dry(links)


def test_two_readers_that_start_after_each_others_writers_are_found() -> None:
    links = [
        Link(key=0, source="p", target="r", need="whole"),
        Link(key=1, source="q", target="r", capacity=4, is_fixed=True),
        Link(key=2, source="q", target="s", need="whole"),
        Link(key=3, source="p", target="s", capacity=4, is_fixed=True),
    ]
    (circle,) = find_circles(links)
    assert {wait.link.key for wait in circle} == {0, 1, 2, 3}
    assert runs_dry(links)


def test_a_chain_behind_a_late_start_is_not_held() -> None:
    links = [
        Link(key=0, source="think", target="prefill", need="whole"),
        Link(key=1, source="prefill", target="speak", need="whole"),
        Link(key=2, source="think", target="speak", capacity=8),
        Link(key=3, source="speak", target="codes", capacity=8),
        Link(key=4, source="codes", target="wave", capacity=8),
    ]
    assert held_whole(links) == {2}


def test_ten_thousand_nodes_take_no_more_than_a_few_seconds() -> None:
    size = 10_000
    links = [Link(key=i, source=f"n{i}", target=f"n{i + 1}", capacity=64, is_fixed=True) for i in range(size)]
    links += [
        Link(key=size + i, source=f"n{i}", target=f"n{i + 7}", lag=i % 5, capacity=64, is_fixed=True)
        for i in range(0, size - 7, 3)
    ]
    start = time.process_time()
    assert find_circles(links) == []
    links += [Link(key=-1, source="n10", target="n9000", need="whole")]
    assert len(find_circles(links)) >= 1
    free = [replace(link, is_fixed=False) for link in links]
    assert len(held_whole(free)) > 0
    least_capacities(free)
    assert time.process_time() - start < 20
