"""The cards and links of a laid out graph as SVG groups, shared by the SVG file and the HTML page."""

from __future__ import annotations

from omniflow.viz.cards import NOTCH, PORT_RADIUS, draw_card, tooltip
from omniflow.viz.curves import Path
from omniflow.viz.grounds import draw_grounds
from omniflow.viz.layout import Box, Layout
from omniflow.viz.markup import element, number, quoted
from omniflow.viz.measure import label_lines
from omniflow.viz.model import Graph, Link, Vertex

_WIDTHS = (0.2, 0.4, 0.6, 0.8)  # weights at which a line gets thicker


def draw_board(graph: Graph, layout: Layout) -> str:
    """Grounds, links, cards, labels, each over the one before. Ids are `e0`, `n0` and so on, in the graph's order."""
    links = [_draw_line(position, link, layout.paths[link.id]) for position, link in enumerate(graph.links)]
    labels = [_draw_label(position, link, layout.labels[link.id]) for position, link in enumerate(graph.links)]
    cards = [
        draw_card(
            position, vertex, graph.colour_of(vertex.expert), _inner_colour(vertex, graph), layout.cards[vertex.id]
        )
        for position, vertex in enumerate(graph.vertices)
    ]
    return "\n".join(
        [
            element("g", {"class": "stages"}, *draw_grounds(graph, layout), ""),
            element("g", {"class": "links"}, *links),
            element("g", {"class": "cards"}, *cards),
            element("g", {"class": "labels"}, *labels),
        ]
    )


def _inner_colour(vertex: Vertex, graph: Graph) -> int | None:
    return None if vertex.inner is None else graph.colour_of(vertex.inner.expert)


def link_name(link: Link) -> str:
    """The edge as it is written in a spec."""
    ends = (link.source.partition(":")[2], link.target.partition(":")[2])
    source = f"{ends[0]}.{link.source_port}" if link.source_port else ends[0]
    target = f"{ends[1]}.{link.target_port}" if link.target_port else ends[1]
    return f"{source} {'~>' if link.streams else '->'} {target}"


def _classes(link: Link, base: str) -> str:
    names = [base, "stream" if link.streams else "value"]
    names += ["back"] if link.back else []
    names += ["critical"] if link.critical else []
    if link.measured is not None:
        names.append(f"w{sum(link.measured.weight >= bound for bound in _WIDTHS)}")
    return " ".join(names)


def _draw_line(position: int, link: Link, path: Path) -> str:
    way, (x, y) = path_data(path), path[-1][3]
    if link.target.startswith("output:"):
        x += NOTCH
        way += f"H{number(x)}"
    else:
        x -= PORT_RADIUS
    head = f"M{number(x - 7.5)} {number(y - 4.2)}L{number(x)} {number(y)}L{number(x - 7.5)} {number(y + 4.2)}Z"
    return element(
        "g",
        {"class": _classes(link, "link"), "data-link": str(position)},
        tooltip(link_name(link), link.facts, link.place),
        element("path", {"class": "reach", "d": way}),
        element("path", {"class": "line", "d": way}),
        element("path", {"class": "head", "d": head}),
    )


def _draw_label(position: int, link: Link, box: Box) -> str:
    lines = label_lines(link)
    x, top = box.x + box.width / 2, box.y + 12
    texts = [
        element("text", {"class": "type" if line == 0 else "policy", "x": x, "y": top + 13 * line}, quoted(text))
        for line, text in enumerate(lines)
    ]
    return element(
        "g",
        {"class": _classes(link, "label"), "data-link": str(position), "id": f"e{position}"},
        tooltip(link_name(link), link.facts, link.place),
        element("rect", {"x": box.x, "y": box.y, "width": box.width, "height": box.height, "rx": 9}),
        *texts,
    )


def path_data(path: Path) -> str:
    """The `d` of an SVG path."""
    words = [f"M{number(path[0][0][0])} {number(path[0][0][1])}"]
    for _, first, second, end in path:
        words.append("C" + " ".join(number(value) for point in (first, second, end) for value in point))
    return "".join(words)
