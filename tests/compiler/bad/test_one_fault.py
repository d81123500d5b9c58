from __future__ import annotations

from pathlib import Path

import pytest

from omniflow_compiler.render import render_report
from tests.compiler.bad.cases_form import FORM
from tests.compiler.bad.cases_graph import GRAPH
from tests.compiler.bad.cases_names import NAMES
from tests.compiler.bad.cases_yaml import YAML
from tests.compiler.mutation import Bad, check, place, write


@pytest.mark.parametrize("bad", [*YAML, *FORM, *NAMES, *GRAPH], ids=lambda bad: bad.name)
def test_one_fault_is_one_finding_at_its_place(bad: Bad, tmp_path: Path) -> None:
    marks = write(bad, tmp_path)
    compilation = check(bad, tmp_path)
    found = list(compilation.report)
    shown = render_report(compilation.report, compilation.sources)
    assert [diagnostic.code for diagnostic in found] == list(bad.codes), shown
    for diagnostic, mark in zip(found, marks, strict=False):
        got = place(diagnostic)
        assert (got.file, got.line, got.column) == (mark.file, mark.line, mark.column), shown
        if diagnostic.span.end_line == diagnostic.span.line and mark.end_column > mark.column + 1:
            assert got.end_column == mark.end_column, shown
    assert bad.help in "\n".join(line for diagnostic in found for line in diagnostic.help), shown
