"""One card: a node with its ports, or the tag of a program input or output."""

from __future__ import annotations

from omniflow.viz.layout import Box
from omniflow.viz.markup import element, number, quoted
from omniflow.viz.measure import (
    NAME_COLUMNS,
    PAD,
    PORT_COLUMNS,
    UNIT_SIZE,
    CardSize,
    bar_text,
    card_name,
    drawn_ports,
    inner_text,
    measure_card,
    port_at,
    unit_text,
    unit_width,
)
from omniflow.viz.model import Fact, Socket, Vertex
from omniflow.viz.text import sans_width, shorten
from omniflow_compiler.schedule import Place

NOTCH = 13  # how far an input's tip and an output's notch reach
PORT_RADIUS = 3.2
_RADIUS = 10


def draw_card(position: int, vertex: Vertex, colour: int | None, inner_colour: int | None, box: Box) -> str:
    """A group moved to the card's place, so that everything in it counts from the card's corner."""
    size = measure_card(vertex)
    classes = ["vertex", vertex.kind, "plain" if colour is None else f"c{colour}"]
    classes += [name for name, on in (("critical", vertex.critical), ("maybe", vertex.when is not None)) if on]
    body = _tag(vertex, size) if vertex.kind in ("input", "output") else _node(vertex, inner_colour, size)
    attributes: dict[str, str | float] = {
        "class": " ".join(classes),
        "id": f"n{position}",
        "data-vertex": str(position),
        "transform": f"translate({number(box.x)} {number(box.y)})",
    }
    return element("g", attributes, tooltip(f"{vertex.kind} {vertex.name}", vertex.facts, vertex.place), *body)


def tooltip(heading: str, facts: tuple[Fact, ...], place: Place) -> str:
    """A `<title>`: what browsers show on hover and screen readers say."""
    lines = [heading, *(f"{fact.name}: {fact.value}" for fact in facts)]
    if place.line > 0:
        lines.append(str(place))
    return element("title", {}, quoted("\n".join(lines)))


def _tag(vertex: Vertex, size: CardSize) -> list[str]:
    w, h, tip = size.width, size.height, NOTCH
    if vertex.kind == "input":
        outline = f"M8 0H{w - tip}L{w} {h / 2:g}L{w - tip} {h}H8Q0 {h} 0 {h - 8}V8Q0 0 8 0Z"
        x = (w - tip) / 2 + 2
    else:
        outline = f"M0 0H{w - 8}Q{w} 0 {w} 8V{h - 8}Q{w} {h} {w - 8} {h}H0L{tip} {h / 2:g}Z"
        x = (w + tip) / 2 - 2
    return [
        element("path", {"class": "body", "d": outline}),
        element("text", {"class": "name", "x": x, "y": 19}, quoted(card_name(vertex))),
        element("text", {"class": "detail", "x": x, "y": 33}, quoted(shorten(vertex.detail, NAME_COLUMNS))),
    ]


def _node(vertex: Vertex, inner_colour: int | None, size: CardSize) -> list[str]:
    w, h = size.width, size.height
    outline: dict[str, str | float] = {"width": w, "height": h, "rx": _RADIUS}
    parts = [element("rect", {"class": "sheet", "x": 8 - 4 * back, "y": 4 * back - 8, **outline}) for back in (0, 1)]
    parts = parts if vertex.each else []
    parts.append(element("rect", {"class": "body", **outline}))
    if vertex.kind == "loop":
        parts.append(element("path", {"class": "head", "d": _head(w, size.header)}))
        parts.append(_turn(w - PAD - 6, 15))
    elif vertex.expert is not None:
        parts.append(element("rect", {"class": "bar", "x": 5, "y": 9, "width": 3.5, "height": 30, "rx": 1.75}))
    parts.append(element("text", {"class": "name", "x": PAD, "y": 20}, quoted(card_name(vertex))))
    detail = quoted(shorten(vertex.detail, NAME_COLUMNS))
    parts.append(element("text", {"class": "detail", "x": PAD, "y": 36}, detail))
    parts += _units(vertex, size)
    parts += _inner(vertex, inner_colour, size)
    parts += _ports(drawn_ports(vertex.inputs), size, PAD, 0, "port in")
    parts += _ports(drawn_ports(vertex.outputs), size, w - PAD, w, "port out")
    parts += _share(vertex, size)
    parts.append(element("rect", {"class": "frame", **outline}))
    return parts


def _head(width: int, height: int) -> str:
    r = _RADIUS
    return f"M0 {height}V{r}Q0 0 {r} 0H{width - r}Q{width} 0 {width} {r}V{height}Z"


def _turn(x: float, y: float) -> str:
    """An arrow that goes round: the mark of a loop."""
    way = "M4.4 -2.6A5 5 0 1 0 5 1.2M4.8 -5.6V-2.4H1.6"
    return element("path", {"class": "turn", "transform": f"translate({number(x)} {number(y)})", "d": way})


def _units(vertex: Vertex, size: CardSize) -> list[str]:
    parts, x = [], float(PAD)
    for unit in vertex.units:
        width = unit_width(unit)
        place = {"x": x, "y": size.units_at - 3, "width": width, "height": 16, "rx": 8}
        parts.append(element("rect", {"class": "unit", **place}))
        middle = {"x": x + width / 2, "y": size.units_at + 8.3}
        parts.append(element("text", {"class": "unit", **middle}, quoted(unit_text(unit))))
        x += width + 5
    return parts


def _inner(vertex: Vertex, colour: int | None, size: CardSize) -> list[str]:
    """A chip in the colour of the inner loop's expert, with its own turning arrow."""
    if vertex.inner is None:
        return []
    width = sans_width(inner_text(vertex.inner), UNIT_SIZE, bold=True) + 30
    place = {"x": PAD, "y": size.inner_at - 3, "width": width, "height": 16, "rx": 8}
    words = quoted(inner_text(vertex.inner))
    return [
        element(
            "g",
            {"class": "inner plain" if colour is None else f"inner c{colour}"},
            element("rect", {"class": "unit", **place}),
            element("g", {"transform": f"translate({number(PAD + 11)} {size.inner_at + 5}) scale(0.75)"}, _turn(0, 0)),
            element("text", {"class": "unit", "x": PAD + 11 + width / 2 - 3, "y": size.inner_at + 8.3}, words),
        )
    ]


def _ports(sockets: tuple[Socket, ...], size: CardSize, text_x: float, dot_x: float, classes: str) -> list[str]:
    parts = []
    for row, socket in enumerate(sockets):
        y = port_at(size, row)
        name = quoted(shorten(socket.name, PORT_COLUMNS))
        parts.append(element("circle", {"class": classes, "cx": dot_x, "cy": y, "r": PORT_RADIUS}))
        parts.append(element("text", {"class": classes, "x": text_x, "y": y + 3.5}, name))
    return parts


def _share(vertex: Vertex, size: CardSize) -> list[str]:
    if vertex.measured is None:
        return []
    width, y = size.width - 2 * PAD, size.bar_at
    done = max(1.5, width * vertex.measured.share)
    return [
        element("text", {"class": "measured", "x": PAD, "y": y + 9}, quoted(bar_text(vertex))),
        element("rect", {"class": "track", "x": PAD, "y": y + 13, "width": width, "height": 4, "rx": 2}),
        element("rect", {"class": "done", "x": PAD, "y": y + 13, "width": done, "height": 4, "rx": 2}),
    ]
