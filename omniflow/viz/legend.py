"""The key under a picture: which colour is which expert, and what the shapes and lines mean."""

from __future__ import annotations

from omniflow.viz.markup import element, number, quoted
from omniflow.viz.model import Graph
from omniflow.viz.text import sans_width, shorten

_SIZE = 11.0
_ROW = 24
_GAP = 20


def draw_legend(graph: Graph, width: float) -> tuple[str, float]:
    """The legend as a group whose top left corner is 0, 0, and its height; entries flow within `width`."""
    rows = [[_expert(family.name, family.use, family.colour) for family in graph.families], _signs(graph)]
    placed: list[str] = []
    y = 0.0
    for row in rows:
        x = 0.0
        for markup, wide in row:
            if x > 0 and x + wide > width:
                x, y = 0.0, y + _ROW
            placed.append(element("g", {"transform": f"translate({number(x)} {number(y)})"}, markup))
            x += wide + _GAP
        y += _ROW if row else 0
    return element("g", {"class": "legend"}, *placed), y


def _expert(name: str, use: str, colour: int) -> tuple[str, float]:
    shown, more = shorten(name, 24), shorten(use, 32)
    words = element("tspan", {"class": "expert"}, quoted(shown))
    words += element("tspan", {"class": "use", "dx": 6}, quoted(more))
    markup = element(
        "g",
        {"class": f"c{colour}"},
        element("rect", {"class": "swatch", "x": 0.8, "y": 1, "width": 14, "height": 14, "rx": 4}),
        element("text", {"x": 21, "y": 12}, words),
    )
    return markup, 27 + sans_width(shown, _SIZE, bold=True) + sans_width(more, _SIZE)


def _signs(graph: Graph) -> list[tuple[str, float]]:
    kinds = {vertex.kind for vertex in graph.vertices}
    turn = element("path", {"class": "turn", "d": "M12.4 5.4A5 5 0 1 0 13 9.2M12.8 2.4V5.6H9.6"})
    chip = element("rect", {"class": "unit", "y": 0, "width": 34, "height": 16, "rx": 8})
    chip += element("text", {"class": "unit", "x": 17, "y": 11.3}, "unit")
    sheets = element("rect", {"class": "sheet", "x": 4, "y": 0.5, "width": 14, "height": 10, "rx": 3})
    sheets += element("rect", {"class": "sheet", "x": 0.5, "y": 4.5, "width": 14, "height": 10, "rx": 3})
    given = element("path", {"class": "body", "d": "M3 2H15L20 8L15 14H3Q1 14 1 12V4Q1 2 3 2Z"})
    taken = element("path", {"class": "body", "d": "M1 2H18Q20 2 20 4V12Q20 14 18 14H1L5 8Z"})
    signs = [
        (element("g", {"class": "input"}, given), 27, "input", "input" in kinds),
        (element("g", {"class": "output"}, taken), 27, "output", "output" in kinds),
        (_line("value"), 40, "finished value ->", True),
        (_line("stream"), 40, "stream of chunks ~>", any(link.streams for link in graph.links)),
        (turn, 20, "loop", "loop" in kinds),
        (chip, 40, "its work units", "loop" in kinds),
        (sheets, 25, "once per item", any(vertex.each for vertex in graph.vertices)),
    ]
    return [_sign(mark, start, text) for mark, start, text, on in signs if on]


def _sign(mark: str, start: float, text: str) -> tuple[str, float]:
    written = element("text", {"x": start, "y": 12}, quoted(text))
    return mark + written, start + sans_width(text, _SIZE)


def _line(kind: str) -> str:
    line = element("path", {"class": "line", "d": "M0 8H27"})
    head = element("path", {"class": "head", "d": "M26 3.8L33.5 8L26 12.2Z"})
    return element("g", {"class": f"link {kind}"}, line, head)
