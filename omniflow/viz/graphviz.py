"""The one place that talks to Graphviz, through pygraphviz, whose wheels bring Graphviz along."""

from __future__ import annotations

from typing import Literal

from omniflow.viz.model import DrawError

Engine = Literal["dot", "nop2"]


def run_graphviz(source: str, *, engine: Engine, form: str) -> bytes:
    """What Graphviz makes of `source`. Errors: DrawError when pygraphviz is absent or Graphviz gives up."""
    try:
        import pygraphviz
    except ImportError as absent:
        raise DrawError(
            "svg, png and html need Graphviz, which is not installed; run `pip install 'omniflow[graph]'`, "
            "or write .mmd, .dot or .json"
        ) from absent
    try:
        drawn: bytes = pygraphviz.AGraph(string=source).draw(format=form, prog=engine)
    except (OSError, ValueError, RuntimeError) as failure:
        raise DrawError(f"Graphviz could not lay this graph out: {failure}") from failure
    return drawn
