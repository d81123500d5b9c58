"""A graph as JSON: the picture's content for other programs.

The document is `{"omniflow": 1, "kind": "graph", "format": 1, "program", "card", "schedule", "facts", "experts",
"groups", "vertices", "links"}`.

- `facts` are `{"name", "value"}` pairs in reading order, here and everywhere below.
- `experts`: `{"name", "use", "colour", "facts", "place"}`; `colour` is a palette row, 0 to 7.
- `groups`: `{"path", "program", "card", "place"}`, stages of a workflow; a vertex's `stage` is such a path or "".
- `vertices`: `{"id", "kind", "stage", "name", "detail", "expert", "units", "inner", "each", "when", "inputs",
  "outputs", "critical", "measured", "facts", "place"}`. `id` is `input:NAME`, `node:NAME` or `output:NAME`; `kind` is
  input, op, loop or output; ports are `{"name", "type", "streams", "linked"}`; `inner` is null or `{"name", "expert",
  "length"}`; `measured` is null or `{"units", "seconds", "share", "first", "last"}`.
- `links`: `{"id", "source", "source_port", "target", "target_port", "streams", "back", "type", "policy", "critical",
  "measured", "facts", "place"}`; ends are vertex ids; `measured` is null or `{"elements", "weight"}`.
- `place` is `{"file", "line", "column"}` in the spec; line 0 when the schedule came without its map.

Keys may be added within a format number; none is renamed or dropped.
"""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Any

from omniflow.viz.model import Graph

FORMAT = 1


def graph_document(graph: Graph) -> dict[str, Any]:
    """The document described above, as plain dicts and lists."""
    body = asdict(graph)
    experts = body.pop("families")
    body.pop("measured")
    return {"omniflow": 1, "kind": "graph", "format": FORMAT, **body, "experts": experts}


def draw_json(graph: Graph) -> str:
    """The document as text: sorted keys, one-space indent, a final newline."""
    return json.dumps(graph_document(graph), sort_keys=True, indent=1, ensure_ascii=False) + "\n"
