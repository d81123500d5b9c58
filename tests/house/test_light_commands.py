from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.house.process import ROOT, run_python

PROGRAM = str(ROOT / "specs" / "null" / "speech.program.yaml")
LAUNCH = "import sys; sys.argv[0] = 'omniflow'; from omniflow.cli import main; main()"


def imported(stderr: str) -> set[str]:
    """Top-level packages in what `-X importtime` wrote."""
    return {match[1] for match in re.finditer(r"^import time:.*\| +(\w+)", stderr, re.MULTILINE)}


@pytest.mark.parametrize(
    "arguments", [["--help"], ["check", PROGRAM], ["compile", PROGRAM, "-o", "null.schedule.json"]]
)
def test_commands_that_run_nothing_import_no_torch(arguments: list[str], tmp_path: Path) -> None:
    done = run_python("-X", "importtime", "-c", LAUNCH, *arguments, folder=tmp_path)
    assert done.returncode == 0, done.stderr[-2000:]
    packages = imported(done.stderr)
    assert "omniflow" in packages
    assert not packages & {"torch", "numpy", "safetensors", "transformers", "diffusers"}


def test_help_imports_no_part_of_the_front_end(tmp_path: Path) -> None:
    done = run_python("-X", "importtime", "-c", LAUNCH, "--help", folder=tmp_path)
    assert done.returncode == 0, done.stderr[-2000:]
    assert not imported(done.stderr) & {"networkx", "jsonschema", "yaml", "jinja2"}
