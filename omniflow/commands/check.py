"""`omniflow check`: every fault of every spec, nothing loaded."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from omniflow.catalog import find_spec
from omniflow.commands.arguments import BadArgument, parse_pairs


def check_specs(specs: Sequence[str], *, settings: Sequence[str], format: str) -> int:
    """Checks each spec; 1 when any has an error."""
    from omniflow_compiler.pipeline import Options, compile_file
    from omniflow_compiler.render import render_report

    if format not in ("text",):
        raise BadArgument(f"--format {format}: known formats are text")
    options = Options(params=parse_pairs(settings, "--set"))
    faulty = False
    for name in specs:
        compilation = compile_file(find_spec(name), options)
        text = render_report(compilation.report, compilation.sources)
        if text:
            sys.stderr.write(text)
        faulty |= compilation.report.num_errors > 0
        if not compilation.report.num_errors:
            print(f"{name}: fine")
    return 1 if faulty else 0
