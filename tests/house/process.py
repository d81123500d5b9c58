"""Runs Python in a process of its own, from a folder that is not the repository."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).parents[2]


def run_python(
    *arguments: str, folder: Path, path: Sequence[Path] = (), python: str = sys.executable
) -> subprocess.CompletedProcess[str]:
    """Runs `python ARGUMENTS` in `folder`, with `path` in front of what that Python imports from."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(map(str, path))}
    return subprocess.run(
        [python, *arguments], cwd=folder, env=environment, capture_output=True, text=True, timeout=120, check=False
    )
