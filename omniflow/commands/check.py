"""`omniflow check`: every fault of every spec, nothing loaded."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import replace

from omniflow.commands.arguments import parse_format
from omniflow.commands.selection import Selection


def check_specs(selections: Sequence[Selection], *, format: str) -> int:
    """Checks each spec; 1 when any has an error. Faults go to standard error as text, to standard output otherwise."""
    from omniflow.commands.remembered import remember
    from omniflow_compiler.reads import recording

    with recording() as reads:
        answer = _answer(selections, parse_format(format))
    code, output, errors = answer
    sys.stderr.write(errors)
    sys.stdout.write(output)
    if sys.argv[1:2] == ["check"] and not _asked_others(selections):
        remember(sys.argv[1:], answer, reads)
    return code


def _answer(selections: Sequence[Selection], format: str) -> tuple[int, str, str]:
    from omniflow_compiler.formats import FORMATS
    from omniflow_compiler.pipeline import compile_file

    found = [compile_file(selection.path, replace(selection.options(), is_check=True)) for selection in selections]
    faulty = any(compilation.report.num_errors for compilation in found)
    text = FORMATS[format]([(compilation.report, compilation.sources) for compilation in found])
    if format != "text":
        return int(faulty), text, ""
    fine = [s.spec for s, compilation in zip(selections, found, strict=True) if not compilation.report.num_errors]
    return int(faulty), "".join(f"{spec}: fine\n" for spec in fine), text


def _asked_others(selections: Sequence[Selection]) -> bool:
    """Whether the answer depends on code of plugin files or of installed packages, which nobody watches."""
    from omniflow_compiler.library.library import has_asked_packages

    return has_asked_packages() or any(selection.plugins for selection in selections)
