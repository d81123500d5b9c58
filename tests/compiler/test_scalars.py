from __future__ import annotations

from pathlib import Path

import pytest

from omniflow_compiler.diagnostics import Report
from omniflow_compiler.load.document import read_text
from omniflow_compiler.load.tree import Mapping, Scalar
from omniflow_compiler.source import SourceSet


def read(text: str) -> tuple[object, Report]:
    report = Report()
    tree = read_text(SourceSet(Path("/")).add(Path("x.yaml"), text), report)
    assert isinstance(tree, Mapping), list(report)
    value = tree.get("a")
    return value.value if isinstance(value, Scalar) else value, report


@pytest.mark.parametrize(
    ("written", "value"),
    [
        # text where YAML 1.1 sees something else (yaml/pyyaml#376, #395, #89)
        ("on", "on"), ("off", "off"), ("yes", "yes"), ("No", "No"), ("y", "y"), ("16:9", "16:9"), ("12:30", "12:30"),
        ("=", "="), ("1_000", "1_000"), ("0b11", "0b11"), ("2024-01-31", "2024-01-31"), ("+", "+"), ("1.2.3", "1.2.3"),
        (".inf", ".inf"), (".NaN", ".NaN"), ("-.", "-."), ("e5", "e5"), ("'1'", "1"), ('"true"', "true"),
        ("tRue", "tRue"), ("nULL", "nULL"), ("a#b", "a#b"), ("$p", "$p"),
        # numbers
        ("0", 0), ("-7", -7), ("+7", 7), ("1e-4", 1e-4), ("1E6", 1e6), (".5", 0.5), ("5.", 5.0), ("-0.0", 0.0),
        ("012", 12), ("0x1F", 31), ("0o17", 15), ("9007199254740992", 2**53),
        # constants
        ("true", True), ("False", False), ("null", None), ("~", None), ("", None),
    ],
)  # fmt: skip
def test_scalars_follow_yaml_1_2(written: str, value: object) -> None:
    found, report = read(f"a: {written}\nb: 1\n")
    assert found == value
    assert type(found) is type(value)
    assert not list(report)


@pytest.mark.parametrize("written", ["9007199254740993", "-1e16", "1e999", "0xFFFFFFFFFFFFFFFFFF"])
def test_a_number_that_is_not_held_exactly_is_refused(written: str) -> None:
    _, report = read(f"a: {written}\n")
    assert [found.code for found in report] == ["OF1104"]


@pytest.mark.parametrize("ends", ["\n", "\r\n", "\r"])
def test_places_are_the_same_for_every_kind_of_line_end(ends: str) -> None:
    text = "a:\n  b: [1, 声, x]\nc: {d: e}\n".replace("\n", ends)
    source = SourceSet(Path("/")).add(Path("x.yaml"), text)
    tree = read_text(source, Report())
    assert isinstance(tree, Mapping)
    inner = tree.get("c")
    assert isinstance(inner, Mapping)
    assert (tree.entries["c"].key.line, tree.entries["c"].key.column) == (3, 1)
    assert (inner.entries["d"].key.line, inner.entries["d"].key.column) == (3, 5)
    assert len(source.lines) == 3
