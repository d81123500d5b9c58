"""A graph as Graphviz source. Cards are HTML-like tables, a cell per port; ids are numbers, every text is escaped."""

from __future__ import annotations

from omniflow.viz.grounds import ground_name
from omniflow.viz.layout import port_row
from omniflow.viz.markup import element, quoted
from omniflow.viz.measure import (
    DETAIL_SIZE,
    LABEL_SIZE,
    NAME_COLUMNS,
    NAME_SIZE,
    PORT_COLUMNS,
    PORT_SIZE,
    UNIT_SIZE,
    bar_text,
    card_name,
    drawn_ports,
    inner_text,
    label_lines,
    measure_card,
    unit_text,
)
from omniflow.viz.model import Graph, Link, Socket, Vertex
from omniflow.viz.palette import LIGHT
from omniflow.viz.text import shorten

COLOURS = LIGHT.values
MONO = "Liberation Mono,DejaVu Sans Mono,Courier New"
GROUND_STYLE = f'style="rounded,filled"; color="{COLOURS["faint"]}"; margin=16; labeljust=l; fontsize=10.5'
SANS = "Helvetica,Arial,sans-serif"


def draw_dot(graph: Graph) -> str:
    """Source that any Graphviz lays out and draws; making it needs no Graphviz."""
    vertices = {vertex.id: vertex for vertex in graph.vertices}
    numbers = {vertex.id: number for number, vertex in enumerate(graph.vertices)}
    lines = ["digraph {", "  graph [rankdir=LR, nodesep=0.3, ranksep=0.5, " + head_attributes(graph) + "]", *defaults()]
    lines += [f"  n{number} [label=<{card_table(v, graph)}>{tip(v)}]" for number, v in enumerate(graph.vertices)]
    for link in graph.links:
        source = f"n{numbers[link.source]}:o{port_row(vertices[link.source], 'o', link.source_port)}:e"
        target = f"n{numbers[link.target]}:i{port_row(vertices[link.target], 'i', link.target_port)}:w"
        lines.append(f"  {source} -> {target} [label=<{label_text(link)}>, {line_attributes(link)}{tip(link)}]")
    for position, group in enumerate(graph.groups):
        inside = "; ".join(f"n{number}" for number, v in enumerate(graph.vertices) if v.stage == group.path)
        lines.append(
            f"  subgraph cluster_{position} {{ label=<{quoted(ground_name(group))}>; {GROUND_STYLE}; {inside} }}"
        )
    return "\n".join([*lines, "}"]) + "\n"


def head_attributes(graph: Graph) -> str:
    """Attributes of the graph itself: its title and ground."""
    title = f'<FONT POINT-SIZE="17"><B>{quoted(shorten(graph.program, 60))}</B></FONT>'
    return f'label=<{title}>, labelloc=t, labeljust=l, fontname="{SANS}", bgcolor="{COLOURS["ground"]}", pad=0.3'


def defaults() -> list[str]:
    """Statements that set what nodes and edges share."""
    return [
        f'  node [shape=plain, fontname="{SANS}", fontcolor="{COLOURS["ink"]}"]',
        f'  edge [arrowsize=0.7, fontname="{MONO}", fontsize={LABEL_SIZE}, fontcolor="{COLOURS["muted"]}"]',
    ]


def card_table(vertex: Vertex, graph: Graph) -> str:
    """The label of a card: heading, unit kinds, a row per port, what was measured."""
    left, right = drawn_ports(vertex.inputs), drawn_ports(vertex.outputs)
    size = measure_card(vertex)
    if vertex.kind in ("input", "output"):
        rows = [_cell(_heading(vertex, graph), size.width, size.height, "o0" if vertex.kind == "input" else "i0")]
    else:
        rows = [_cell(_heading(vertex, graph), size.width, size.header, "", span=2, align="LEFT")]
        half = size.width // 2
        for row in range(max(len(left), len(right))):
            first = _port(left, row, "i", half, size.row)
            rows.append(first + _port(right, row, "o", size.width - half, size.row))
    if vertex.measured is not None:
        rows.append(_cell(_line(bar_text(vertex), LABEL_SIZE, "ink"), size.width, 20, "", span=2, align="LEFT"))
    frame, ground = _colours(vertex, graph)
    attributes = {"BORDER": "1.5", "COLOR": frame, "BGCOLOR": ground, "STYLE": "ROUNDED"}
    plain = {"CELLBORDER": "0", "CELLSPACING": "0", "CELLPADDING": "0"}
    return element("TABLE", {**attributes, **plain}, *(element("TR", {}, row) for row in rows))


def label_text(link: Link) -> str:
    """The label of an edge: ports are on the cards, so type, cut and volume remain."""
    return "<BR/>".join(quoted(line) for line in label_lines(link))


def line_attributes(link: Link) -> str:
    """How an edge's line is drawn."""
    colour = COLOURS["stream" if link.streams else "edge"]
    width = 1.3 if link.measured is None else 1 + 3.5 * link.measured.weight
    style = "dashed" if link.streams else "solid"
    back = ", constraint=false" if link.back else ""
    return f'color="{colour}", style={style}, penwidth={width:.2f}{back}'


def tip(item: Vertex | Link) -> str:
    """The tooltip attribute, which Graphviz hands on to SVG and image maps."""
    lines = "\n".join(f"{fact.name}: {fact.value}" for fact in item.facts)
    legal = lines.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n").replace("\0", "")
    return f', tooltip="{legal}"'


def _heading(vertex: Vertex, graph: Graph) -> str:
    tag = vertex.kind in ("input", "output")
    ink, muted = ("plate-ink", "plate-ink") if vertex.kind == "input" else ("ink", "muted")
    detail = shorten(vertex.detail, NAME_COLUMNS)
    if tag:
        return _font(card_name(vertex), NAME_SIZE, ink, bold=True) + "<BR/>" + _font(detail, LABEL_SIZE, muted)
    each = ", each" if vertex.each else ""
    lines = _line(card_name(vertex), NAME_SIZE, ink, bold=True)
    lines += _line(detail if vertex.units else detail + each, DETAIL_SIZE, muted)
    if vertex.units:
        colour = graph.colour_of(vertex.expert)
        accent = "muted" if colour is None else f"e{colour}-ink"
        units = ", ".join(unit_text(unit) for unit in vertex.units)
        lines += _line(f"↻ {units}{each}", UNIT_SIZE, accent, bold=True)
    if vertex.inner is not None:
        lines += _line(f"↻ {inner_text(vertex.inner)}", UNIT_SIZE, "muted", bold=True)
    return lines


def _colours(vertex: Vertex, graph: Graph) -> tuple[str, str]:
    colour = graph.colour_of(vertex.expert)
    if vertex.kind == "input":
        return COLOURS["plate"], COLOURS["plate"]
    if vertex.kind == "output":
        return COLOURS["plate"], COLOURS["surface"]
    if colour is None:
        return COLOURS["edge"], COLOURS["surface"]
    return COLOURS[f"e{colour}"], COLOURS[f"e{colour}-tint"] if vertex.kind == "loop" else COLOURS["surface"]


def _port(sockets: tuple[Socket, ...], row: int, side: str, width: int, height: int) -> str:
    if row >= len(sockets):
        return _cell("", width, height, "")
    name = shorten(sockets[row].name, PORT_COLUMNS)
    text = element("FONT", {"FACE": MONO, "POINT-SIZE": PORT_SIZE, "COLOR": COLOURS["muted"]}, quoted(f" {name} "))
    return _cell(text, width, height, f"{side}{row}", align="LEFT" if side == "i" else "RIGHT")


def _cell(body: str, width: int, height: int, port: str, *, span: int = 1, align: str = "CENTER") -> str:
    attributes: dict[str, str | float] = {"COLSPAN": span, "WIDTH": width, "HEIGHT": height, "ALIGN": align}
    if port:
        attributes["PORT"] = port
    return element("TD", attributes, body)


def _line(text: str, size: float, colour: str, *, bold: bool = False) -> str:
    """A line that starts a little right of the card's border."""
    start = _font("    ", 9, colour)
    return start + _font(text, size, colour, bold=bold) + start + '<BR ALIGN="LEFT"/>'


def _font(text: str, size: float, colour: str, *, bold: bool = False) -> str:
    words = element("B", {}, quoted(text) or " ") if bold else quoted(text) or " "
    return element("FONT", {"POINT-SIZE": size, "COLOR": COLOURS[colour]}, words)
