"""A contestant of `serving.py`: a library in a process of its own, which takes requests and gives outcomes as lines.

The parent makes a `Contestant`; the child's file calls `answer` with what makes its forms of serving.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path

from workload import Outcome, Request

Form = Callable[[Sequence[Request]], Outcome]
FOLDER = Path(__file__).resolve().parent


class Absent(Exception):
    """The library is not installed, or does not run here; the message says which."""


class Contestant:
    """One library with one set of weights, ready to serve."""

    def __init__(self, name: str, *, python: str, arguments: Sequence[str], threads: int) -> None:
        self.name = name
        environment = {**os.environ, "OMP_NUM_THREADS": str(threads), "HF_HUB_OFFLINE": "1"}
        if shutil.which(python) is None:
            raise Absent(f"there is no {python}")
        self._process = subprocess.Popen(
            [python, str(FOLDER / f"serving_{name}.py"), *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE if os.environ.get("QUIET", "1") == "1" else None,
            env=environment,
            text=True,
        )
        hello = self._read()
        if "absent" in hello:
            self.close()
            raise Absent(hello["absent"])
        self.version: str = hello["version"]
        self.forms: list[str] = hello["forms"]

    def run(self, form: str, requests: Sequence[Request]) -> Outcome:
        """Serves the requests once."""
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps([form, [asdict(request) for request in requests]]) + "\n")
        self._process.stdin.flush()
        return Outcome(**self._read())

    def close(self) -> None:
        """Ends the process."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        try:
            self._process.wait(timeout=10)
        except subprocess.TimeoutExpired:
            self._process.kill()

    def _read(self) -> dict:  # type: ignore[type-arg]
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            lines = self._process.stderr.read().strip().splitlines() if self._process.stderr else []
            raise Absent(f"it ended: {lines[-1] if lines else 'without a word'}")
        return json.loads(line)


def answer(make: Callable[[Sequence[str]], tuple[str, Mapping[str, Form]]]) -> None:
    """The child's main: `make` gets the arguments and gives the library's version and its forms by name."""
    out = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)  # what a library prints must not be taken for an answer
    try:
        version, forms = make(sys.argv[1:])
    except ImportError as error:
        out.write(json.dumps({"absent": f"not installed ({error})"}) + "\n")
        return
    out.write(json.dumps({"version": version, "forms": list(forms)}) + "\n")
    for line in sys.stdin:
        form, requests = json.loads(line)
        read = [Request(**{**request, "prompt": tuple(request["prompt"])}) for request in requests]
        out.write(json.dumps(asdict(forms[form](read))) + "\n")
