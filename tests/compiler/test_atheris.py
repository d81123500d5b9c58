from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.fuzz
def test_the_loader_survives_what_coverage_leads_to(tmp_path: Path) -> None:
    pytest.importorskip("atheris", reason="needs the fuzz extra")
    corpus = tmp_path / "corpus"
    corpus.mkdir()
    for path in (ROOT / "specs" / "null").glob("*.yaml"):
        shutil.copy(path, corpus)
    command = [sys.executable, "-m", "tests.compiler.fuzz_loader", str(corpus), "-atheris_runs=2000", "-timeout=10"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    assert "Done 2000" in done.stderr
