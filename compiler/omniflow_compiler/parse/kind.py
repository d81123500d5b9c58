"""Finds out what kind of spec a document is."""

from __future__ import annotations

from omniflow_compiler import codes
from omniflow_compiler.diagnostics import Report
from omniflow_compiler.load.lints import read_levels
from omniflow_compiler.load.tree import Mapping, Scalar
from omniflow_compiler.made import MADE
from omniflow_compiler.suggest import did_you_mean, nearest

KINDS = ("card", "program", "graph", "workflow", "config")


def kind_of(document: Mapping, report: Report) -> str | None:
    """The kind of spec, or None with the reason in the report. What the file says of lints holds from here on."""
    read_levels(document, report)
    version, kind = document.entries.get("omniflow"), document.entries.get("kind")
    if version is None:
        if not nearest("omniflow", document.entries):  # a misspelt key is reported as such
            help = ["begin the file with `omniflow: 1`"]
            report.add(codes.VERSION, document.span.start, "no language version", help=help)
    elif not isinstance(version.value, Scalar) or version.value.value != 1 or version.value.value is True:
        found = version.value.written if isinstance(version.value, Scalar) else "something else"
        help = ["this compiler reads `omniflow: 1`"]
        report.add(codes.VERSION, version.value.span, f"language version is `{found}`, not 1", help=help)
    if kind is None:
        close = nearest("kind", document.entries, most=1)
        span = document.entries[close[0]].key if close else document.span.start
        help = [f"write `kind:` instead of `{close[0]}:`" if close else "add `kind: card` or `kind: program`"]
        report.add(codes.KIND, span, "no kind of spec", help=help)
        return None
    made = MADE.get(str(kind.value.value)) if isinstance(kind.value, Scalar) else None
    if made is not None:
        report.add(codes.KIND, kind.value.span, f"this is {made[0]}, no spec", help=[made[1]])
        return None
    if not isinstance(kind.value, Scalar) or kind.value.value not in KINDS:
        found = kind.value.written if isinstance(kind.value, Scalar) else "something else"
        report.add(codes.KIND, kind.value.span, f"unknown kind `{found}`", help=did_you_mean(found, KINDS, "kind"))
        return None
    return str(kind.value.value)
