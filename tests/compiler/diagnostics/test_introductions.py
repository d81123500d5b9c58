from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from omniflow_compiler import explanations
from omniflow_compiler.expressions import Expression
from omniflow_compiler.pages import PAGES

FOLDER = Path(explanations.__file__).parents[1] / "introductions"
FENCE = re.compile(r"^```yaml (\S+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
LANGUAGE = (FOLDER / "language.md").read_text("utf-8")


@pytest.fixture
def family(tmp_path: Path) -> Path:
    files = FENCE.findall(LANGUAGE)
    assert [name for name, _ in files] == ["card.yaml", "reply.program.yaml"]
    for name, text in files:
        (tmp_path / name).write_text(text)
    return tmp_path


def test_the_example_of_the_introduction_is_fine_and_runs(family: Path) -> None:
    code = "import sys; sys.argv[0] = 'omniflow'; from omniflow.__main__ import main; main()"
    for command in (["check", "reply.program.yaml"], ["run", "reply.program.yaml", "--input", "prompt=hello"]):
        done = subprocess.run(
            [sys.executable, "-c", code, *command], cwd=family, capture_output=True, text=True, timeout=120, check=False
        )
        assert done.returncode == 0, done.stderr


def test_every_page_begins_with_its_introduction() -> None:
    for name, write in PAGES.items():
        introduction = (FOLDER / name).read_text("utf-8")
        assert write().startswith(introduction)


def test_the_introduction_promises_no_expression_that_cannot_be_read() -> None:
    assert "`12 * think.tokens + 64`" in LANGUAGE
    Expression("12 * think.tokens + 64")
    Expression("not (inputs.a == 'x' and params.b != null) or true < 3 - 2 * 1 and 1 <= 2 and 2 >= 1 and 2 > 1")


def test_every_decision_that_the_introduction_names_is_there() -> None:
    docs = Path(__file__).parents[3] / "docs"
    linked = re.findall(r"\]\(([^)]+\.md)\)", LANGUAGE)
    assert linked
    assert all((docs / link).is_file() for link in linked), linked
