"""The layout: nothing overlaps, every edge runs from its port to its port in one piece, long strips are folded."""

from __future__ import annotations

from itertools import combinations, pairwise

import pytest

from omniflow.viz.build import build_graph
from omniflow.viz.curves import cut, from_points, rounded
from omniflow.viz.fold import fold
from omniflow.viz.grounds import place_grounds
from omniflow.viz.layout import Box, Layout, lay_out, port_row
from omniflow.viz.measure import measure_card, port_at
from omniflow.viz.model import Graph
from omniflow_compiler.schedule import Schedule
from tests.viz.schedules import channel, large, nasty, node, output, schedule, smol_speech, workflow

pytest.importorskip("pygraphviz")

SCHEDULES = {"smol": smol_speech(), "nasty": nasty(), "large": large(12), "workflow": workflow()}


@pytest.fixture(scope="module", params=SCHEDULES)
def drawn(request) -> tuple[Graph, Layout]:
    graph = build_graph(SCHEDULES[request.param])
    return graph, fold(lay_out(graph))


def meet(a: Box, b: Box) -> bool:
    apart = a.x + a.width <= b.x or b.x + b.width <= a.x or a.y + a.height <= b.y or b.y + b.height <= a.y
    return not apart


def near(a: tuple[float, float], b: tuple[float, float], slack: float) -> bool:
    return abs(a[0] - b[0]) < slack and abs(a[1] - b[1]) < slack


def test_no_card_or_label_lies_on_another(drawn) -> None:
    _, layout = drawn
    boxes = [*layout.cards.items(), *layout.labels.items()]
    assert [(a, b) for (a, one), (b, two) in combinations(boxes, 2) if meet(one, two)] == []


def test_everything_is_inside_the_picture(drawn) -> None:
    _, layout = drawn
    for box in [*layout.cards.values(), *layout.labels.values()]:
        assert box.x >= -1
        assert box.y >= -1
        assert box.x + box.width <= layout.width + 1
        assert box.y + box.height <= layout.height + 1
    points = [point for path in layout.paths.values() for piece in path for point in piece]
    assert min(x for x, _ in points) >= -1
    assert max(x for x, _ in points) <= layout.width + 1


def test_every_edge_runs_unbroken_from_its_port_to_its_port(drawn) -> None:
    graph, layout = drawn
    vertices = {vertex.id: vertex for vertex in graph.vertices}
    for link in graph.links:
        path = layout.paths[link.id]
        source, target = vertices[link.source], vertices[link.target]
        start, end = layout.cards[source.id], layout.cards[target.id]
        leaves = start.y + port_at(measure_card(source), port_row(source, "o", link.source_port))
        enters = end.y + port_at(measure_card(target), port_row(target, "i", link.target_port))
        assert near(path[0][0], (start.x + start.width, leaves), 3), link.id
        assert near(path[-1][3], (end.x, enters), 3), link.id
        assert all(near(a[3], b[0], 0.5) for a, b in pairwise(path)), link.id


def test_every_label_lies_on_its_own_edge(drawn) -> None:
    graph, layout = drawn
    for link in graph.links:
        box = layout.labels[link.id]
        slack = Box(x=box.x - 2, y=box.y - 2, width=box.width + 4, height=box.height + 4)
        ends = [
            Box(x=x, y=y, width=0.1, height=0.1) for piece in layout.paths[link.id] for x, y in (piece[0], piece[3])
        ]
        assert any(meet(slack, end) for end in ends), link.id


@pytest.mark.parametrize("name", ["smol", "large"])
def test_a_long_strip_is_folded_to_the_shape_of_a_page(name: str) -> None:
    graph = build_graph(SCHEDULES[name])
    strip = lay_out(graph)
    folded = fold(strip)
    assert strip.width / strip.height > 10
    assert 1.4 < folded.width / folded.height < 3.2


def test_a_small_graph_is_left_in_one_row() -> None:
    one = schedule(
        (node("a", "add", 3, reads={"x": "text"}, writes={"y": "text"}),),
        (channel("prompt", "a.x", "text", 4),),
    )
    layout = lay_out(build_graph(one))
    assert fold(layout) is layout


def both_ways() -> Schedule:
    """A node that feeds itself, and a pair that feeds each other, by back edges."""
    nodes = (
        node("a", "add", 3, reads={"x": "text", "again": "text"}, writes={"y": "text"}),
        node("b", "add", 4, reads={"x": "text", "self": "text"}, writes={"y": "text"}),
    )
    back = {"initial": "", "bound": 4}
    channels = (
        channel("prompt", "a.x", "text", 5),
        channel("a.y", "b.x", "text", 6),
        channel("b.y", "a.again", "text", 7, back_edge=back),
        channel("b.y", "b.self", "text", 8, back_edge=back),
    )
    return schedule(nodes, channels, outputs=(output("out", "b", "y", "text", 9),))


def test_back_edges_do_not_turn_the_reading_direction_round() -> None:
    graph = build_graph(both_ways())
    cards = lay_out(graph).cards
    order = ["input:prompt", "node:a", "node:b", "output:out"]
    assert sorted(cards, key=lambda name: cards[name].x) == order


def test_a_graph_of_three_hundred_nodes_is_laid_out() -> None:
    graph = build_graph(large(75))
    layout = fold(lay_out(graph))
    assert len(layout.cards) == 302
    assert layout.width / layout.height < 3.2


def test_a_curve_that_is_cut_is_the_same_curve() -> None:
    path = from_points([(0, 0), (40, 80), (60, -80), (100, 0)])
    pieces = cut(path, [50.0, 75.0])
    assert len(pieces) == 3
    assert [round(piece[3][0], 3) for piece in pieces] == [50.0, 75.0, 100.0]
    assert all(a[3] == b[0] for a, b in pairwise(pieces))


def test_a_curve_is_cut_where_a_sample_falls_on_the_line() -> None:
    assert len(cut(from_points([(0, 5), (10, 5), (20, 5), (30, 5)]), [15.0])) == 2


def test_rounded_corners_are_joined_without_gaps() -> None:
    path = rounded([(0, 0), (50, 0), (50, 40), (0, 40)], 9)
    assert path[0][0] == (0, 0)
    assert path[-1][3] == (0, 40)
    assert all(near(a[3], b[0], 1e-9) for a, b in pairwise(path))


def test_a_stage_s_ground_holds_its_own_cards_and_no_others() -> None:
    graph = build_graph(workflow())
    layout = fold(lay_out(graph))
    grounds = list(place_grounds(graph, layout))
    assert {group.path for group, _ in grounds} == {"draw", "tell"}
    for vertex in graph.vertices:
        on = {group.path for group, box in grounds if meet(box, layout.cards[vertex.id])}
        assert on == ({vertex.stage} if vertex.stage else set()), vertex.id
