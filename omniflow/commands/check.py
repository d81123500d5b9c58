"""`omniflow check`: every fault of every spec, nothing loaded."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from omniflow.commands.arguments import BadArgument
from omniflow.commands.selection import Selection


def check_specs(selections: Sequence[Selection], *, format: str) -> int:
    """Checks each spec; 1 when any has an error."""
    from omniflow_compiler.pipeline import compile_file
    from omniflow_compiler.render import render_report

    if format not in ("text",):
        raise BadArgument(f"--format {format}: known formats are text")
    faulty = False
    for selection in selections:
        compilation = compile_file(selection.path, selection.options())
        text = render_report(compilation.report, compilation.sources)
        if text:
            sys.stderr.write(text)
        faulty |= compilation.report.num_errors > 0
        if not compilation.report.num_errors:
            print(f"{selection.spec}: fine")
    return 1 if faulty else 0
