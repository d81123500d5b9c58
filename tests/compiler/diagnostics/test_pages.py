from __future__ import annotations

from pathlib import Path

import pytest

from omniflow_compiler import explanations
from omniflow_compiler.codes import CODES
from omniflow_compiler.explanations import Page, read_page, renewed, run

FOLDER = Path(explanations.__file__).parent


def test_every_code_has_a_page_and_every_page_a_code() -> None:
    assert {path.stem for path in FOLDER.glob("*.md")} == set(CODES)


def test_codes_are_in_order_and_titles_are_not_repeated() -> None:
    assert list(CODES) == sorted(CODES)
    assert len({code.title for code in CODES.values()}) == len(CODES)


@pytest.fixture(params=CODES)
def page(request: pytest.FixtureRequest) -> Page:
    return read_page(request.param)


def test_the_bad_example_gives_that_code_alone_and_the_output_of_the_page(page: Page, tmp_path: Path) -> None:
    report, output = run(page.bad, page.command, tmp_path)
    assert [found.code for found in report] == [page.code]
    assert output == page.output, "run `python -m omniflow_compiler.explanations`, and read what changed"


def test_the_good_example_is_fine(page: Page, tmp_path: Path) -> None:
    report, output = run({**page.bad, **page.good}, page.good_command, tmp_path)
    assert not report, output
    assert page.good or page.good_command != page.command


def test_a_page_has_its_title_and_says_why_before_it_shows_how(page: Page, tmp_path: Path) -> None:
    title, _, rest = page.text.partition("\n")
    assert title == f"# {page.code}: {CODES[page.code].title}"
    why = rest.partition("## Bad")[0].strip()
    assert len(why) > 60
    assert "```" not in why
    assert renewed(page, tmp_path) == page.text


def test_the_tool_puts_a_changed_output_right(tmp_path: Path) -> None:
    page = read_page("OF1305")
    wrong = page.text.replace(page.output, "something else\n")
    assert wrong != page.text
    stale = Page(
        code=page.code, text=wrong, bad=page.bad, good=page.good, command=page.command,
        good_command=page.good_command, output="something else\n",
    )  # fmt: skip
    assert renewed(stale, tmp_path) == page.text
