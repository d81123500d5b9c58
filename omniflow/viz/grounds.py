"""The ground that the nodes of a workflow's stage share: a rectangle per row of the layout."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from omniflow.viz.layout import GROUND, Box, Layout
from omniflow.viz.markup import element, quoted
from omniflow.viz.model import Graph, Group
from omniflow.viz.text import shorten

_HEADING = 14  # room for the stage's name over its cards
_MARGIN = GROUND - 4


def place_grounds(graph: Graph, layout: Layout) -> Iterator[tuple[Group, Box]]:
    """Each stage's rectangles, in the order of the stages and of the rows."""
    boxes: defaultdict[tuple[str, int], list[Box]] = defaultdict(list)
    for vertex in graph.vertices:
        boxes[vertex.stage, layout.rows[vertex.id]].append(layout.cards[vertex.id])
    for group in graph.groups:
        for row in sorted({row for stage, row in boxes if stage == group.path}):
            yield group, _around(boxes[group.path, row])


def draw_grounds(graph: Graph, layout: Layout) -> list[str]:
    """The rectangles and their names as SVG."""
    return [_draw(group, box) for group, box in place_grounds(graph, layout)]


def ground_name(group: Group) -> str:
    """What is written on the ground."""
    return f"{shorten(group.path, 30)} · {shorten(group.program, 40)}"


def _around(boxes: list[Box]) -> Box:
    left, top = min(box.x for box in boxes) - _MARGIN, min(box.y for box in boxes) - _MARGIN - _HEADING / 2
    right = max(box.x + box.width for box in boxes) + _MARGIN
    bottom = max(box.y + box.height for box in boxes) + _MARGIN / 2
    return Box(x=left, y=top, width=right - left, height=bottom - top)


def _draw(group: Group, box: Box) -> str:
    return element(
        "g",
        {"class": "stage"},
        element("rect", {"x": box.x, "y": box.y, "width": box.width, "height": box.height, "rx": 14}),
        element("text", {"x": box.x + 12, "y": box.y + 14}, quoted(ground_name(group))),
    )
