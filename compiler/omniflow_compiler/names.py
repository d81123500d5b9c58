"""Reports a name that is not there."""

from __future__ import annotations

from collections.abc import Mapping

from omniflow_compiler import codes
from omniflow_compiler.diagnostics import Edit, Report
from omniflow_compiler.spec import Name
from omniflow_compiler.suggest import did_you_mean, nearest


def unknown(
    report: Report, code: codes.Code, name: Name, known: Mapping[str, object], what: str, near: str = ""
) -> None:
    """Reports a name that is not there, with the nearest ones."""
    close = [] if report.is_full else nearest(name.text, known, most=1)
    report.add(
        code,
        name.span,
        f"unknown {what} `{name.text}`{near}",
        help=[] if report.is_full else did_you_mean(name.text, known, what),
        edits=[Edit(span=name.span, text=close[0])] if close else [],
    )
