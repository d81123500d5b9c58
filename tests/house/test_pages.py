from __future__ import annotations

from pathlib import Path

import pytest

from omniflow_compiler.codes import CODES
from omniflow_compiler.library.library import BUILT_IN
from omniflow_compiler.pages import PAGES

DOCS = Path(__file__).parents[2] / "docs"


@pytest.mark.parametrize("name", sorted(PAGES))
def test_a_reference_page_is_what_the_code_says(name: str) -> None:
    written = (DOCS / name).read_text(encoding="utf-8")
    assert written == PAGES[name](), "run: python -m omniflow_compiler.pages docs"


def test_the_language_page_names_every_op_loop_and_expert() -> None:
    page = PAGES["language.md"]()
    for name in (*BUILT_IN.ops, *BUILT_IN.loops, *BUILT_IN.experts):
        assert f"### `{name}`" in page, name


def test_the_diagnostics_page_has_every_code() -> None:
    page = PAGES["diagnostics.md"]()
    for code in CODES.values():
        assert f"## {code.id}: {code.title}" in page, code.id
