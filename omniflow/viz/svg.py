"""A graph as one SVG file: title, cards and links, legend; light or dark as the viewer prefers."""

from __future__ import annotations

from omniflow.viz.board import draw_board
from omniflow.viz.fold import fold
from omniflow.viz.layout import lay_out
from omniflow.viz.legend import draw_legend
from omniflow.viz.markup import element, number, quoted
from omniflow.viz.model import Graph
from omniflow.viz.style import svg_style
from omniflow.viz.text import shorten

_BORDER = 24
_TITLE = 58
_LEAST_WIDTH = 560


def draw_svg(graph: Graph) -> str:
    """The whole file as text. Errors: DrawError without Graphviz."""
    layout = fold(lay_out(graph))
    inner = max(layout.width, _LEAST_WIDTH)
    legend, legend_height = draw_legend(graph, inner)
    width = inner + 2 * _BORDER
    below = _BORDER + _TITLE + layout.height + 30
    height = below + legend_height + _BORDER - 8
    right = _BORDER + max(0.0, (inner - layout.width) / 2)
    attributes: dict[str, str | float] = {
        "xmlns": "http://www.w3.org/2000/svg",
        "viewBox": f"0 0 {number(width)} {number(height)}",
        "width": width,
        "height": height,
        "role": "img",
        "aria-label": f"Graph of {graph.program}",
    }
    body = element(
        "svg",
        attributes,
        element("style", {}, svg_style(graph)),
        element("rect", {"class": "ground", "width": width, "height": height, "rx": 12}),
        _title(graph),
        _at(right, _BORDER + _TITLE, draw_board(graph, layout)),
        _at(_BORDER, below, legend),
    )
    return f"{body}\n"


def _title(graph: Graph) -> str:
    name = shorten(graph.program, 60)
    nodes = sum(vertex.kind in ("op", "loop") for vertex in graph.vertices)
    more = f"card {shorten(graph.card, 40)}, {nodes} {'node' if nodes == 1 else 'nodes'}"
    words = element("tspan", {"class": "title"}, quoted(name))
    words += element("tspan", {"class": "subtitle", "dx": 12}, quoted(more))
    return _at(_BORDER, _BORDER, element("text", {"y": 14}, words))


def _at(x: float, y: float, markup: str) -> str:
    return element("g", {"transform": f"translate({number(x)} {number(y)})"}, markup)
