"""Writes diagnostics as one SARIF 2.1.0 log, with the rules behind the findings, second places and fixes.

The form is that of the OASIS standard "Static Analysis Results Interchange Format (SARIF) Version 2.1.0".
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from urllib.parse import quote

from omniflow_compiler.codes import CODES, explanation
from omniflow_compiler.diagnostics import Diagnostic, Edit, Report
from omniflow_compiler.source import SourceSet, Span
from omniflow_compiler.version import VERSION

SCHEMA = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"
Json = dict[str, object]


def render_sarif(reports: Sequence[tuple[Report, SourceSet]]) -> str:
    """One log with one run that has the findings of all reports."""
    found = [(diagnostic, sources) for report, sources in reports for diagnostic in report]
    rules = sorted({diagnostic.code for diagnostic, _ in found})
    driver = {"name": "omniflow", "semanticVersion": VERSION, "rules": [_rule(code) for code in rules]}
    run = {
        "tool": {"driver": driver},
        "columnKind": "unicodeCodePoints",
        "results": [_result(diagnostic, rules, sources) for diagnostic, sources in found],
    }
    log = {"$schema": SCHEMA, "version": "2.1.0", "runs": [run]}
    return json.dumps(log, indent=2, ensure_ascii=False) + "\n"


def _rule(code: str) -> Json:
    known = CODES[code]
    page = explanation(code)
    return {
        "id": code,
        "shortDescription": {"text": known.title},
        "fullDescription": {"text": page.partition("\n")[2].partition("## Bad")[0].strip()},
        "help": {"text": page, "markdown": page},
        "defaultConfiguration": {"level": known.level},
    }


def _result(found: Diagnostic, rules: Sequence[str], sources: SourceSet) -> Json:
    message = "\n".join([found.message, *(f"help: {text}" for text in found.help)])
    result: Json = {
        "ruleId": found.code,
        "ruleIndex": rules.index(found.code),
        "level": found.level,
        "message": {"text": message},
        "locations": _locations([(found.span, found.note)], sources),
    }
    related = _locations([(label.span, label.text) for label in found.labels], sources)
    if related:
        result["relatedLocations"] = [{"id": number, **location} for number, location in enumerate(related, start=1)]
    edits = [edit for edit in found.edits if edit.span.file in sources.sources]
    if edits:
        result["fixes"] = [_fix(edits, sources)]
    return result


def _locations(places: Iterable[tuple[Span, str]], sources: SourceSet) -> list[Json]:
    """What lies in a file; the command line is no place of a file."""
    found: list[Json] = []
    for span, text in places:
        if span.file in sources.sources:
            artifact = {"uri": _uri(span.file, sources)}
            location: Json = {"physicalLocation": {"artifactLocation": artifact, "region": _region(span)}}
            found.append({**location, "message": {"text": text}} if text else location)
    return found


def _uri(name: str, sources: SourceSet) -> str:
    """A file as a URI: relative where it lies in the working folder, else absolute."""
    path = sources.path_of(name)
    return Path(path).as_uri() if Path(path).is_absolute() else quote(path)


def _region(span: Span) -> Json:
    return {
        "startLine": span.line,
        "startColumn": span.column,
        "endLine": span.end_line,
        "endColumn": span.end_column,
    }


def _fix(edits: Sequence[Edit], sources: SourceSet) -> Json:
    files = sorted({edit.span.file for edit in edits})
    changes = [
        {
            "artifactLocation": {"uri": _uri(file, sources)},
            "replacements": [
                {"deletedRegion": _region(edit.span), "insertedContent": {"text": edit.text}}
                for edit in edits
                if edit.span.file == file
            ],
        }
        for file in files
    ]
    return {"description": {"text": f"write `{edits[0].text}`"}, "artifactChanges": changes}
