"""The picture of the SVG as a PNG: the same layout, drawn by Graphviz at twice the size for sharp screens."""

from __future__ import annotations

from omniflow.viz.curves import Path
from omniflow.viz.dot import GROUND_STYLE, MONO, card_table, defaults, head_attributes, label_text, line_attributes
from omniflow.viz.fold import fold
from omniflow.viz.graphviz import run_graphviz
from omniflow.viz.grounds import ground_name, place_grounds
from omniflow.viz.layout import Box, Layout, lay_out
from omniflow.viz.markup import element, quoted
from omniflow.viz.measure import LABEL_SIZE
from omniflow.viz.model import Family, Graph
from omniflow.viz.palette import LIGHT
from omniflow.viz.text import shorten

_ARROW = 7.0
_BARE = {"BORDER": "0", "CELLBORDER": "0", "CELLSPACING": "0", "CELLPADDING": "3"}
_SIGNS = ("dark: input", "outlined: output", "solid: finished value ->", "dashed: stream of chunks ~>", "↻: loop")
_MAX_PIXELS = 24_000  # what image viewers and Cairo still take, along one side


def draw_png(graph: Graph) -> bytes:
    """The file's bytes. Errors: DrawError without Graphviz."""
    return run_graphviz(_source(graph, fold(lay_out(graph))), engine="nop2", form="png:cairo")


def _source(graph: Graph, layout: Layout) -> str:
    numbers = {vertex.id: number for number, vertex in enumerate(graph.vertices)}
    dpi = min(144.0, _MAX_PIXELS * 72 / max(layout.width, layout.height))
    key = f'pos="{layout.width / 2:.2f},-46", label=<{_legend(graph, layout.width)}>'
    head = f'bb="0,-70,{layout.width:.1f},{layout.height + 40:.1f}", lp="120,{layout.height + 24:.1f}"'
    lines = [
        "digraph {",
        f"  graph [dpi={dpi:.1f}, outputorder=edgesfirst, {head}, {head_attributes(graph)}]",
        *defaults(),
    ]
    lines.append(f"  legend [{key}]")
    for position, (group, box) in enumerate(place_grounds(graph, layout)):
        low, high = layout.height - box.y - box.height, layout.height - box.y
        corners = f"{box.x:.2f},{low:.2f},{box.x + box.width:.2f},{high:.2f}"
        place = f"{box.x + 100:.2f},{high - 10:.2f}"
        name = f'label=<{quoted(ground_name(group))}>; lp="{place}"'
        lines.append(f'  subgraph cluster_{position} {{ bb="{corners}"; {name}; {GROUND_STYLE} }}')
    for link in graph.links:
        ends = f"n{numbers[link.source]} -> n{numbers[link.target]}"
        lines.append(f'  {ends} [pos="{_pos(layout.paths[link.id], layout)}", {line_attributes(link)}]')
    for vertex in graph.vertices:
        centre = _centre(layout.cards[vertex.id], layout)
        lines.append(f'  n{numbers[vertex.id]} [pos="{centre}", label=<{card_table(vertex, graph)}>]')
    colours = LIGHT.values
    pill = f'shape=box, style="rounded,filled", fillcolor="{colours["ground"]}", color="{colours["faint"]}"'
    pill += f', fontname="{MONO}", fontsize={LABEL_SIZE}, fontcolor="{colours["muted"]}", margin=0, fixedsize=true'
    for number, link in enumerate(graph.links):
        box = layout.labels[link.id]
        size = f"width={box.width / 72:.4f}, height={box.height / 72:.4f}"
        lines.append(f'  e{number} [pos="{_centre(box, layout)}", {size}, {pill}, label=<{label_text(link)}>]')
    return "\n".join([*lines, "}"]) + "\n"


def _legend(graph: Graph, width: float) -> str:
    """A square and a name per expert; under them, what lines and marks mean."""
    experts = "".join(_swatch(family) for family in graph.families) or " "
    signs = "     ".join(_SIGNS)
    whole: dict[str, str | float] = {"ALIGN": "LEFT", "WIDTH": width}
    rows = (experts, element("FONT", {"POINT-SIZE": 11}, quoted(signs)))
    return element("TABLE", _BARE, *(element("TR", {}, element("TD", whole, row)) for row in rows))


def _swatch(family: Family) -> str:
    square = element("FONT", {"COLOR": LIGHT.values[f"e{family.colour}"], "POINT-SIZE": 16}, "■")
    return square + element("FONT", {"POINT-SIZE": 11}, quoted(f" {shorten(family.name, 24)}      "))


def _centre(box: Box, layout: Layout) -> str:
    return f"{box.x + box.width / 2:.2f},{layout.height - box.y - box.height / 2:.2f}"


def _pos(path: Path, layout: Layout) -> str:
    """Graphviz's notation: the arrow's tip, then all control points, which stop short of it."""
    tip = path[-1][3]
    points = [path[0][0], *(point for piece in path for point in piece[1:])]
    points[-1] = (tip[0] - _ARROW, tip[1])
    words = [f"e,{tip[0]:.2f},{layout.height - tip[1]:.2f}"]
    return " ".join([*words, *(f"{x:.2f},{layout.height - y:.2f}" for x, y in points)])
