"""Answers of `omniflow check` that still hold, in the user's cache folder, found by the command line as it was written.

An answer is used only while every file and folder that its compilation looked at is unchanged, and the compiler too.
Only the standard library is imported on that way: an unchanged check costs little more than the start of Python.
"""

from __future__ import annotations

import hashlib
import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path

import omniflow_compiler
from omniflow.folders import cache_root
from omniflow_compiler.reads import Reads
from omniflow_compiler.version import VERSION

FORMAT = 1
MAX_ENTRIES = 256
MAX_ENTRY_BYTES = 1 << 20
Answer = tuple[int, str, str]  # exit code, standard output, standard error


def recall(arguments: Sequence[str]) -> Answer | None:
    """The answer given before to this command line, if nothing that it depends on has changed."""
    try:
        digest, _, body = _file(arguments).read_text(encoding="utf-8").partition("\n")
        if hashlib.sha256(body.encode()).hexdigest() != digest:
            return None
        kept = json.loads(body)
        reads = Reads()
        reads.files = {path: (real, seen) for path, real, seen in kept["files"]}
        reads.folders = dict(kept["folders"])
        code, output, errors = kept["answer"]
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return (code, output, errors) if reads.still_hold() else None


def remember(arguments: Sequence[str], answer: Answer, reads: Reads) -> None:
    """Keeps an answer; a cache that cannot be written is no fault."""
    files = [(path, *seen) for path, seen in sorted(reads.files.items())]
    body = json.dumps({"files": files, "folders": sorted(reads.folders.items()), "answer": answer})
    if len(body) > MAX_ENTRY_BYTES:
        return
    import tempfile  # 15 ms that only a new answer needs

    path = _file(arguments)
    try:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        with tempfile.NamedTemporaryFile("w", dir=path.parent, encoding="utf-8", delete=False) as file:
            file.write(f"{hashlib.sha256(body.encode()).hexdigest()}\n{body}")
        os.replace(file.name, path)
        _forget_oldest(path.parent)
    except OSError:
        return


def _forget_oldest(folder: Path) -> None:
    """Keeps the folder at a bounded number of entries; half of them go at once, so that this is rare."""
    entries = list(folder.iterdir())
    if len(entries) > MAX_ENTRIES:
        entries.sort(key=lambda entry: entry.stat().st_mtime_ns)
        for entry in entries[: len(entries) - MAX_ENTRIES // 2]:
            entry.unlink(missing_ok=True)


def _file(arguments: Sequence[str]) -> Path:
    """Where the answer to a command line is kept: by its words, the working folder and the code that would give it."""
    key = json.dumps([FORMAT, VERSION, sys.version, str(Path.cwd()), list(arguments), _code()])
    return cache_root() / "check" / f"{hashlib.sha256(key.encode()).hexdigest()}.json"


def _code() -> list[tuple[str, int, int]]:
    """Names, sizes and times of all files of the compiler and of this command."""
    found = []
    stack = [str(Path(omniflow_compiler.__file__).parent), str(Path(__file__).parent)]
    while stack:
        for entry in os.scandir(stack.pop()):
            if entry.is_dir(follow_symlinks=False):
                if entry.name != "__pycache__":
                    stack.append(entry.path)
            elif not entry.name.endswith(".pyc"):
                status = entry.stat()
                found.append((entry.path, status.st_size, status.st_mtime_ns))
    return sorted(found)
