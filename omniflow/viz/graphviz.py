"""The one place that talks to Graphviz, through pygraphviz, whose wheels bring Graphviz along."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from typing import IO, Literal

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
    with _said() as words:
        try:
            drawn: bytes = pygraphviz.AGraph(string=source).draw(format=form, prog=engine)
        except (OSError, ValueError, RuntimeError) as failure:
            raise DrawError(f"Graphviz could not draw this graph: {failure}") from failure
        words.seek(0)
        errors = [line for line in words.read().decode("utf-8", "replace").splitlines() if line.startswith("Error")]
    if errors:
        raise DrawError(f"Graphviz could not draw this graph: {errors[0]}")
    return drawn


@contextmanager
def _said() -> Iterator[IO[bytes]]:
    """What C code writes to standard error meanwhile: font warnings that help nobody, and Graphviz's errors."""
    with tempfile.TemporaryFile() as words:
        kept = os.dup(2)
        os.dup2(words.fileno(), 2)
        try:
            yield words
        finally:
            os.dup2(kept, 2)
            os.close(kept)
