"""The forms in which findings are written: for people, for programs, for code scanning and for GitHub."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from omniflow_compiler.diagnostics import Report
from omniflow_compiler.source import SourceSet

Checked = tuple[Report, SourceSet]


def _text(checked: Sequence[Checked]) -> str:
    from omniflow_compiler.render import render_report

    return "\n".join(text for report, sources in checked if (text := render_report(report, sources)))


def _json(checked: Sequence[Checked]) -> str:
    from omniflow_compiler.render_json import render_json

    return "".join(render_json(report, sources) for report, sources in checked)


def _sarif(checked: Sequence[Checked]) -> str:
    from omniflow_compiler.render_sarif import render_sarif

    return render_sarif(checked)


def _github(checked: Sequence[Checked]) -> str:
    from omniflow_compiler.render_github import render_github

    return "".join(render_github(report, sources) for report, sources in checked)


FORMATS: Mapping[str, Callable[[Sequence[Checked]], str]] = {
    "text": _text,
    "json": _json,
    "sarif": _sarif,
    "github": _github,
}
