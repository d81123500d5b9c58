"""A graph as a Mermaid flowchart, for Markdown that renders it. Ids are numbered: no name clashes or is a keyword."""

from __future__ import annotations

import re

from omniflow.viz.model import Graph, Link, Vertex
from omniflow.viz.palette import LIGHT
from omniflow.viz.text import shorten

_SHAPES = {"input": ("([", "])"), "output": ("([", "])"), "op": ("[", "]"), "loop": ("[[", "]]")}
# Nothing that Mermaid reads as syntax, nor its Markdown as emphasis or as the start of a list.
_UNSAFE = re.compile(r"[^\w .,:()\[\]/@+=→↻…↵·×-]|^[-+]|(?<=\d)\.(?= )")


def draw_mermaid(graph: Graph) -> str:
    """The chart as text, one line per vertex and per edge."""
    names = {vertex.id: mermaid_id(number, vertex) for number, vertex in enumerate(graph.vertices)}
    lines = ["flowchart LR"]
    lines += [f"  {names[vertex.id]}{_box(vertex)}" for vertex in graph.vertices]
    for position, group in enumerate(graph.groups):
        inside = [f"    {names[vertex.id]}" for vertex in graph.vertices if vertex.stage == group.path]
        lines += [f'  subgraph s{position}["{quote_mermaid(group.path)}"]', *inside, "  end"]
    lines += [_edge(link, names) for link in graph.links]
    return "\n".join([*lines, *_classes(graph, names)]) + "\n"


def mermaid_id(number: int, vertex: Vertex) -> str:
    """The number makes it unique, the letters make it readable."""
    return f"n{number}_{re.sub('[^A-Za-z0-9]+', '_', vertex.name)[:24].strip('_')}".rstrip("_")


def quote_mermaid(text: str) -> str:
    """A quoted label: everything that Mermaid or its Markdown could read as syntax becomes a character reference."""
    plain = shorten(text, 60)
    return _UNSAFE.sub(lambda match: f"#{ord(match[0])};", plain)


def _box(vertex: Vertex) -> str:
    lines = [vertex.name, vertex.detail]
    if vertex.units:
        lines.append("↻ " + ", ".join(vertex.units))
    if vertex.inner is not None:
        lines.append(f"↻ inner {vertex.inner.name} ×{vertex.inner.length}")
    if vertex.each:
        lines.append("once per item")
    if vertex.when is not None:
        lines.append(f"when {vertex.when}")
    start, end = _SHAPES[vertex.kind]
    return f'{start}"{"<br/>".join(quote_mermaid(line) for line in lines)}"{end}'


def _edge(link: Link, names: dict[str, str]) -> str:
    ports = " → ".join(port for port in (link.source_port, link.target_port) if port)
    words = [quote_mermaid(text) for text in (ports, link.type, link.policy) if text]
    arrow = "-.->" if link.streams else "-->"
    return f'  {names[link.source]} {arrow}|"{"<br/>".join(words)}"| {names[link.target]}'


def _classes(graph: Graph, names: dict[str, str]) -> list[str]:
    colours = LIGHT.values
    lines = [f"  classDef tag fill:{colours['plate']},color:{colours['plate-ink']},stroke:{colours['plate']}"]
    if graph.groups:
        lines.append(f"  classDef ground fill:{colours['ground']},stroke:{colours['edge']},color:{colours['muted']}")
        lines.append(f"  class {','.join(f's{position}' for position in range(len(graph.groups)))} ground")
    ends = [names[vertex.id] for vertex in graph.vertices if vertex.kind in ("input", "output")]
    if ends:
        lines.append(f"  class {','.join(ends)} tag")
    for family in graph.families:
        loops = [names[v.id] for v in graph.vertices if v.kind == "loop" and v.expert == family.name]
        if loops:
            key = f"e{family.colour}"
            style = f"fill:{colours[f'{key}-tint']},stroke:{colours[key]},color:{colours['ink']}"
            lines += [f"  classDef {key} {style}", f"  class {','.join(loops)} {key}"]
    return lines
