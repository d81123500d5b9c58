"""Draws a schedule into a file or to standard output, in the form the user asked for."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

from omniflow.files import WriteError, write_bytes
from omniflow.viz.model import DrawError, Graph
from omniflow_compiler.schedule import Schedule


def draw(schedule: Schedule, *, output: Path | None, format: str, run: Path | None) -> int:
    """Draws `schedule`, with the times of the run record `run` if there is one; 1 after a printed error.

    output: None for standard output. format: svg, png, html, mmd, dot or json.
    """
    from omniflow.viz.build import build_graph
    from omniflow.viz.run import read_run

    try:
        graph = build_graph(schedule, None if run is None else read_run(run))
        data = render(graph, format)
        if output is None:
            sys.stdout.buffer.write(data)
            sys.stdout.buffer.flush()
            return 0
        write_bytes(output, data)
    except (DrawError, WriteError) as error:
        print(f"omniflow: {error}", file=sys.stderr)
        return 1
    print(f"{output}: {len(graph.vertices)} cards, {len(graph.links)} edges")
    return 0


def render(graph: Graph, format: str) -> bytes:
    """The bytes of the picture. Errors: DrawError for an unknown format, and where Graphviz is missing or fails."""
    if format == "png":
        from omniflow.viz.png import draw_png

        return draw_png(graph)
    return _text_form(format)(graph).encode("utf-8", "replace")


def _text_form(format: str) -> Callable[[Graph], str]:
    """The drawing function of a format; only that one is imported."""
    if format == "svg":
        from omniflow.viz.svg import draw_svg as draw_text
    elif format == "html":
        from omniflow.viz.html import draw_html as draw_text
    elif format == "mmd":
        from omniflow.viz.mermaid import draw_mermaid as draw_text
    elif format == "dot":
        from omniflow.viz.dot import draw_dot as draw_text
    elif format == "json":
        from omniflow.viz.data import draw_json as draw_text
    else:
        raise DrawError(f"cannot draw `{format}`; known formats are svg, png, html, mmd, dot and json")
    return draw_text
