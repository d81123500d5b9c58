"""A graph as one HTML file that needs nothing else: the picture, the sources and a small script to move in them."""

from __future__ import annotations

import base64
import hashlib

from jinja2 import Environment, FunctionLoader, StrictUndefined
from markupsafe import Markup

from omniflow.viz.board import draw_board, link_name
from omniflow.viz.data import graph_document
from omniflow.viz.fold import fold
from omniflow.viz.layout import lay_out
from omniflow.viz.markup import number
from omniflow.viz.model import Graph
from omniflow.viz.sources import read_sources
from omniflow.viz.style import page_style, read_asset

_BORDER = 28


def draw_html(graph: Graph) -> str:
    """The page as text; spec files are read for the source view. Errors: DrawError without Graphviz."""
    layout = fold(lay_out(graph))
    style = page_style(graph) + "\n" + read_asset("page.css")
    script = read_asset("page.js")
    corners = (-_BORDER, -_BORDER, layout.width + 2 * _BORDER, layout.height + 2 * _BORDER)
    pages = Environment(loader=FunctionLoader(read_asset), autoescape=True, undefined=StrictUndefined, trim_blocks=True)
    return pages.get_template("page.html.j2").render(
        graph=graph,
        policy=_policy(style, script),
        style=Markup(style),  # noqa: S704 our own rules and palette
        script=Markup(script),  # noqa: S704 our own file
        board=Markup(draw_board(graph, layout)),  # noqa: S704 every text in it went through `quoted`
        view=" ".join(number(value) for value in corners),
        document={**graph_document(graph), "names": [link_name(link) for link in graph.links]},
        sources=read_sources(graph),
    )


def _policy(style: str, script: str) -> str:
    """Nothing is loaded from anywhere, and only this very style and script may run."""
    return (
        f"default-src 'none'; style-src '{_digest(style)}'; script-src '{_digest(script)}'; "
        "base-uri 'none'; form-action 'none'"
    )


def _digest(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode("utf-8")).digest()).decode("ascii")
