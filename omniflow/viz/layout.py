"""Where everything goes: Graphviz ranks and routes the cards and the labels; sizes are ours, so no font is asked."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass

from omniflow.viz.curves import Path, from_points, reversed_path, straight
from omniflow.viz.graphviz import run_graphviz
from omniflow.viz.measure import drawn_ports, measure_card, measure_label
from omniflow.viz.model import Graph, Link, Vertex

GROUND = 20  # points between a stage's cards and the border of its ground


@dataclass(frozen=True, slots=True, kw_only=True)
class Box:
    """A rectangle by its top left corner; y grows downwards."""

    x: float
    y: float
    width: float
    height: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """Boxes by vertex id and by link id, paths by link id (source port to target port), and the size of it all."""

    cards: Mapping[str, Box]
    labels: Mapping[str, Box]
    paths: Mapping[str, Path]
    rows: Mapping[str, int]  # by vertex id; all 0 until the layout is folded
    width: float
    height: float


def lay_out(graph: Graph) -> Layout:
    """Left to right, ports in their order, every label a stop on its own edge. Errors: DrawError."""
    answer = json.loads(run_graphviz(_source(graph), engine="dot", form="json0"))
    _, _, width, height = (float(number) for number in answer["bb"].split(","))
    boxes = {item["name"]: _box(item, height) for item in answer.get("objects", ()) if "pos" in item}
    halves = {item["id"]: _path(item["pos"], height) for item in answer.get("edges", ())}
    return Layout(
        cards={vertex.id: boxes[f"n{number}"] for number, vertex in enumerate(graph.vertices)},
        labels={link.id: boxes[f"e{number}"] for number, link in enumerate(graph.links)},
        paths={link.id: _whole(link, number, halves) for number, link in enumerate(graph.links)},
        rows=dict.fromkeys((vertex.id for vertex in graph.vertices), 0),
        width=width,
        height=height,
    )


def _whole(link: Link, number: int, halves: Mapping[str, Path]) -> Path:
    """Both halves, joined under the label. Graphviz got back edges reversed, or they would turn the ranks round."""
    first, last = halves[f"a{number}"], halves[f"b{number}"]
    path = (*first, straight(first[-1][3], last[0][0]), *last)
    return reversed_path(path) if link.back else path


def _source(graph: Graph) -> str:
    numbers = {vertex.id: number for number, vertex in enumerate(graph.vertices)}
    vertices = {vertex.id: vertex for vertex in graph.vertices}
    lines = [
        "digraph {",
        "graph [rankdir=LR, nodesep=0.22, ranksep=0.26, splines=true, remincross=true]",
        'node [shape=plain, label=""]',
        "edge [arrowhead=none, arrowtail=none]",
    ]
    lines += [f"n{numbers[vertex.id]} [label=<{_table(vertex)}>]" for vertex in graph.vertices]
    for number, link in enumerate(graph.links):
        width, height = measure_label(link)
        lines.append(f"e{number} [shape=box, fixedsize=true, width={width / 72:.4f}, height={height / 72:.4f}]")
        source = f"n{numbers[link.source]}:{_port('o', vertices[link.source], link.source_port)}:e"
        target = f"n{numbers[link.target]}:{_port('i', vertices[link.target], link.target_port)}:w"
        first, last = (target, source) if link.back else (source, target)
        weight = 1 if link.back else 8 if link.critical else 4
        lines.append(f"{first} -> e{number}:w [id=a{number}, weight={weight}]")
        lines.append(f"e{number}:e -> {last} [id=b{number}, weight={weight}]")
    return "\n".join([*lines, *_clusters(graph), "}"])


def _clusters(graph: Graph) -> list[str]:
    """The stages of a workflow, so that Graphviz keeps their nodes and inner edges together."""
    stages = {vertex.id: vertex.stage for vertex in graph.vertices}
    lines = []
    for position, group in enumerate(graph.groups):
        inside = [f"n{number}" for number, vertex in enumerate(graph.vertices) if vertex.stage == group.path]
        for number, link in enumerate(graph.links):
            if stages[link.source] == stages[link.target] == group.path:
                inside.append(f"e{number}")
        lines.append(f"subgraph cluster_{position} {{ margin={GROUND}; {'; '.join(inside)} }}")
    return lines


def _port(side: str, vertex: Vertex, name: str) -> str:
    return f"{side}{port_row(vertex, side, name)}"


def port_row(vertex: Vertex, side: str, name: str) -> int:
    """The row on the card of the port `name`; `side` is "i" for inputs and "o" for outputs."""
    sockets = drawn_ports(vertex.inputs if side == "i" else vertex.outputs)
    return next(row for row, socket in enumerate(sockets) if socket.name == name)


def _table(vertex: Vertex) -> str:
    """A borderless table of the card's exact size whose cells are the ports."""
    size = measure_card(vertex)
    left, right = len(drawn_ports(vertex.inputs)), len(drawn_ports(vertex.outputs))
    half = size.width // 2
    rows = [_cell("", size.width, size.header, span=2)]
    for row in range(max(left, right)):
        first = _cell(f"i{row}" if row < left else "", half, size.row)
        rows.append(first + _cell(f"o{row}" if row < right else "", size.width - half, size.row))
    foot = size.height - size.header - max(left, right) * size.row
    if foot > 0:
        rows.append(_cell("", size.width, foot, span=2))
    body = "".join(f"<TR>{row}</TR>" for row in rows)
    return f'<TABLE BORDER="0" CELLBORDER="0" CELLSPACING="0" CELLPADDING="0">{body}</TABLE>'


def _cell(port: str, width: int, height: int, *, span: int = 1) -> str:
    name = f' PORT="{port}"' if port else ""
    return f'<TD{name} COLSPAN="{span}" FIXEDSIZE="TRUE" WIDTH="{width}" HEIGHT="{height}"></TD>'


def _box(item: Mapping[str, str], total: float) -> Box:
    x, y = (float(number) for number in item["pos"].split(","))
    width, height = float(item["width"]) * 72, float(item["height"]) * 72
    return Box(x=x - width / 2, y=total - y - height / 2, width=width, height=height)


def _path(text: str, total: float) -> Path:
    """Control points of a Graphviz `pos`; arrows are switched off, so there are no end points to skip."""
    points = [point.split(",") for point in text.split()]
    return from_points([(float(x), total - float(y)) for x, y in points])
