from __future__ import annotations

import unicodedata
from pathlib import Path

import pytest

from omniflow_compiler.codes import BAD_VALUE, UNKNOWN_NODE
from omniflow_compiler.diagnostics import MAX_FINDINGS, Label, Report
from omniflow_compiler.render import render_report
from omniflow_compiler.source import SourceSet, Span


def shown(line: str, start: int, stop: int, note: str = "") -> list[str]:
    """The lines that show `line` with columns start to stop (0-based) underlined."""
    sources, report = SourceSet(Path("/")), Report()
    name = sources.add(Path("x.yaml"), f"{line}\n").name
    report.add(BAD_VALUE, Span(name, 1, start + 1, 1, stop + 1), "wrong", note=note)
    return render_report(report, sources).splitlines()


def columns(text: str) -> int:
    return sum(2 if unicodedata.east_asian_width(c) in "WF" else 1 for c in text if not unicodedata.combining(c))


@pytest.mark.parametrize(
    ("line", "part"),
    [
        ("a: b", "b"),
        ("声: 大きい", "大きい"),
        ("e\u0301a: bad", "bad"),  # a combining accent takes no column
        ("a:\tb", "b"),
        ("x: \N{GRINNING FACE} bad", "bad"),
    ],
)
def test_the_mark_stands_below_what_it_marks(line: str, part: str) -> None:
    start = line.index(part)
    _, _, source, mark, *_ = shown(line, start, start + len(part), "here")
    before = source.index("|") + 2
    assert columns(source[: source.index(part)]) - before == mark.index("^") - before
    assert mark.count("^") == columns(part)
    assert mark.endswith(" here")


def test_a_long_line_is_cut_around_its_place() -> None:
    line = "a" * 5_000 + "BAD" + "b" * 5_000
    _, _, source, mark, *_ = shown(line, 5_000, 5_003)
    assert len(source) < 200
    assert source[mark.index("^") : mark.index("^") + 3] == "BAD"


def test_control_characters_are_not_sent_to_the_terminal() -> None:
    *_, source, _, _, _ = shown("a: \x1b[31mred\x07", 3, 4)
    assert "\x1b" not in source
    assert "\x07" not in source


def test_no_more_findings_are_kept_than_anyone_reads() -> None:
    sources, report = SourceSet(Path("/")), Report()
    name = sources.add(Path("x.yaml"), "x\n" * 5_000).name
    for line in range(1, 5_001):
        report.add(BAD_VALUE, Span(name, line, 1, line, 2), f"number {line} is wrong")
    text = render_report(report, sources)
    assert text.endswith(f"at least {MAX_FINDINGS} errors\n")
    assert text.count("\nerror[") == MAX_FINDINGS - 1
    assert report.is_full


def test_one_unknown_name_is_one_finding_with_all_its_places() -> None:
    report = Report()
    spans = [Span("x.yaml", line, 3, line, 6) for line in (7, 3, 5)]
    for span in spans:
        report.add(UNKNOWN_NODE, span, "unknown node `abc`", labels=[Label(span=span, text="here too")])
    (found,) = report
    assert found.span.line == 3
    assert sorted({label.span.line for label in found.labels}) == [3, 5, 7]


def test_findings_come_in_the_order_of_their_places() -> None:
    report = Report()
    for line, column in ((9, 1), (2, 8), (2, 3), (10, 1)):
        report.add(BAD_VALUE, Span("x.yaml", line, column, line, column + 1), f"{line} {column}")
    assert [(found.span.line, found.span.column) for found in report] == [(2, 3), (2, 8), (9, 1), (10, 1)]
