"""A converted folder and its manifest: written once, checked at every load, cheaply while nothing has touched it."""

from __future__ import annotations

import json
import os
from pathlib import Path

from omniflow.weights.files import sha256_of, write_json

MANIFEST = "manifest.json"  # sha256 and size of every produced file; the same bytes on every machine
STAMP = "verified.json"  # size and mtime of every file when its hash was last seen to be right; this machine only


def seal(folder: Path) -> None:
    """Hashes what a conversion produced, writes the manifest and flushes all of it to disk."""
    names = sorted(path.name for path in folder.iterdir())
    write_json(folder / MANIFEST, {name: _entry(folder / name) for name in names})
    for name in (*names, MANIFEST):
        _flush(folder / name)
    _stamp(folder, names)


def is_intact(folder: Path) -> bool:
    """True when every file is as sealed. Hashes only files whose size or mtime changed since the last look."""
    manifest = _read(folder / MANIFEST)
    if not manifest:
        return False
    if any(not (folder / name).is_file() for name in manifest):
        return False
    if _read(folder / STAMP) == _observed(folder, list(manifest)):
        return True
    if any(_entry(folder / name) != entry for name, entry in manifest.items()):
        return False
    _stamp(folder, list(manifest))
    return True


def _entry(path: Path) -> dict[str, object]:
    return {"sha256": sha256_of(path), "bytes": path.stat().st_size}


def _observed(folder: Path, names: list[str]) -> dict[str, object]:
    stats = {name: (folder / name).stat() for name in (*names, MANIFEST)}
    return {name: [stat.st_size, stat.st_mtime_ns] for name, stat in stats.items()}


def _stamp(folder: Path, names: list[str]) -> None:
    """Best effort: on a read-only cache the files are simply hashed at every load."""
    temporary = folder / f".{STAMP}.{os.getpid()}"
    try:
        write_json(temporary, _observed(folder, names))
        os.replace(temporary, folder / STAMP)
    except OSError:
        temporary.unlink(missing_ok=True)


def _read(path: Path) -> dict[str, object]:
    """The JSON object at `path`; an empty one when it is absent or damaged."""
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
    except (FileNotFoundError, ValueError):
        return {}
    return value if isinstance(value, dict) else {}


def _flush(path: Path) -> None:
    descriptor = os.open(path, os.O_RDWR)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
