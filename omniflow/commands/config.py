"""`omniflow config`: every value of a program and where it came from."""

from __future__ import annotations

import json
import sys

from omniflow.commands.arguments import BadArgument
from omniflow.commands.selection import Selection


def show_config(selection: Selection, *, as_json: bool) -> int:
    """Prints a row per value; 1 when the spec has faults."""
    from omniflow_compiler.origins import origins
    from omniflow_compiler.pipeline import compile_file
    from omniflow_compiler.render import render_report

    compilation = compile_file(selection.path, selection.options())
    sys.stderr.write(render_report(compilation.report, compilation.sources))
    if compilation.report.num_errors:
        return 1
    if compilation.graph is None:
        raise BadArgument(f"`{selection.spec}` is a {compilation.kind}; name a program or a workflow")
    rows = [(row.name, json.dumps(row.value, ensure_ascii=False), row.origin) for row in origins(compilation.graph)]
    if as_json:
        print(json.dumps([{"name": n, "value": json.loads(v), "from": o} for n, v, o in rows], indent=1))
        return 0
    widths = [max(len(row[i]) for row in rows) for i in (0, 1)]
    for name, value, origin in rows:
        print(f"{name:<{widths[0]}}  {value:<{min(widths[1], 40)}}  {origin}")
    return 0
