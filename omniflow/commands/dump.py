"""`omniflow compile --dump-after`: the graph after a pass, in a form that reads back."""

from __future__ import annotations

import sys

from omniflow.commands.arguments import BadArgument
from omniflow.commands.selection import Selection


def dump_graph(selection: Selection, after: str) -> int:
    """Prints the graph after that pass as far as it is known; 1 when the spec has faults."""
    from omniflow_compiler.dump import write
    from omniflow_compiler.pipeline import compile_file
    from omniflow_compiler.render import render_report
    from omniflow_compiler.snapshot import NEED_SOUND, PASSES, known_of, snapshot

    if after not in PASSES:
        known = "; ".join(f"{name}: {doc}" for name, doc in PASSES.items())
        raise BadArgument(f"--dump-after {after}: passes are {known}")
    options = selection.options()
    compilation = compile_file(selection.path, options)
    sys.stderr.write(render_report(compilation.report, compilation.sources))
    if compilation.graph is None or compilation.types is None:
        if compilation.report.num_errors:
            return 1
        raise BadArgument(f"`{selection.spec}` is a {compilation.kind}; name a program of it")
    if compilation.plan is not None or after not in NEED_SOUND:
        found = known_of(compilation.graph, compilation.types, options.outputs, compilation.plan)
        sys.stdout.write(write(snapshot(found, after)))
    return 1 if compilation.report.num_errors else 0
