"""Process time of what people wait for most often. The aims: 0.5 s, 0.15 s and 0.3 s on a quiet machine."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PROGRAM = str(ROOT / "specs" / "smol_speech" / "speech.program.yaml")
LAUNCH = "import sys; sys.argv[0] = 'omniflow'; from omniflow.__main__ import main; main()"
MARGIN = 2.5


def seconds(arguments: Sequence[str], cache: Path) -> float:
    """Process time of one run, with the start of Python."""
    environment = {**os.environ, "OMNIFLOW_CACHE": str(cache), "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-c", LAUNCH, *arguments]
    process = subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    assert process.stderr is not None
    errors = process.stderr.read()
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    process.stderr.close()
    assert process.returncode == 0, errors
    return used.ru_utime + used.ru_stime


def test_a_first_check_takes_half_a_second(tmp_path: Path) -> None:
    assert min(seconds(["check", PROGRAM], tmp_path / str(n)) for n in range(3)) < 0.5 * MARGIN


def test_a_check_of_what_has_not_changed_takes_an_instant(tmp_path: Path) -> None:
    seconds(["check", PROGRAM], tmp_path)
    assert min(seconds(["check", PROGRAM], tmp_path) for _ in range(3)) < 0.15 * MARGIN


def test_help_takes_a_third_of_a_second(tmp_path: Path) -> None:
    assert min(seconds(["--help"], tmp_path) for _ in range(3)) < 0.3 * MARGIN


SLOW_TO_IMPORT = {"networkx", "jsonschema", "pydantic", "torch", "numpy", "rich", "importlib.metadata", "jinja2"}


@pytest.mark.parametrize("arguments", [["check", PROGRAM], ["check", PROGRAM, "--format", "json"], ["--help"]])
def test_nothing_that_is_slow_to_import_is_imported(arguments: list[str], tmp_path: Path) -> None:
    environment = {**os.environ, "OMNIFLOW_CACHE": str(tmp_path), "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-X", "importtime", "-c", LAUNCH, *arguments]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60, check=True)
    imported = set(re.findall(r"^import time:.*\| +([\w.]+)", done.stderr, re.MULTILINE))
    assert "omniflow" in imported
    assert not imported & SLOW_TO_IMPORT


def test_a_plain_check_imports_no_parser_of_the_command_line(tmp_path: Path) -> None:
    environment = {**os.environ, "OMNIFLOW_CACHE": str(tmp_path), "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-X", "importtime", "-c", LAUNCH, "check", PROGRAM]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60, check=True)
    assert "typer" not in done.stderr
    again = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60, check=True)
    assert again.stdout == done.stdout
    assert not re.search(r"\| +(yaml|omniflow_compiler\.pipeline|typer)$", again.stderr, re.MULTILINE)
