"""Records what a compilation looks at, so that its result can be kept for as long as nothing of that changes.

Only the standard library is imported here: the answer to an unchanged `omniflow check` comes from this module alone.
"""

from __future__ import annotations

import errno
import hashlib
import os
import select
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path


class Reads:
    """What was looked at.

    `files` have, by path, where the path led and a digest of what was read (None when nothing could be); `folders` a
    digest of the names in them.
    """

    __slots__ = ("files", "folders")

    def __init__(self) -> None:
        self.files: dict[str, tuple[str, str | None]] = {}
        self.folders: dict[str, str | None] = {}

    def still_hold(self) -> bool:
        """Whether everything that was looked at is as it was."""
        return all(seen == _seen(path) for path, seen in self.files.items()) and all(
            names == names_digest(path) for path, names in self.folders.items()
        )


MAX_FILE_BYTES = 64 * 1024 * 1024
MOST_SECONDS = 5  # for what writes into a pipe to go on
_CURRENT: ContextVar[Reads | None] = ContextVar("reads", default=None)
_HELD: ContextVar[Mapping[Path, bytes] | None] = ContextVar("held", default=None)


@contextmanager
def recording() -> Iterator[Reads]:
    """Records what is looked at while it is open."""
    reads = Reads()
    token = _CURRENT.set(reads)
    try:
        yield reads
    finally:
        _CURRENT.reset(token)


@contextmanager
def holding(contents: Mapping[Path, bytes]) -> Iterator[None]:
    """What an editor holds, by resolved path, stands for what is on disk while this is open."""
    token = _HELD.set(contents)
    try:
        yield
    finally:
        _HELD.reset(token)


def _held(path: Path) -> bytes | None:
    """The text of an editor for that path, which need not be on disk."""
    held = _HELD.get()
    return None if held is None else held.get(real_path(path))


def real_path(path: Path) -> Path:
    """Where a path leads; itself where its links lead in a circle."""
    try:
        return path.resolve()
    except (OSError, RuntimeError):
        return path.absolute()


def num_bytes(path: Path) -> int:
    """The size of what `read_bytes` would read, told before it is read. Errors: OSError."""
    content = _held(path)
    return path.stat().st_size if content is None else len(content)


def read_bytes(path: Path) -> bytes:
    """What a file holds, cut one byte above the limit. Errors: OSError."""
    content = _held(path)
    if content is not None:
        return content[: MAX_FILE_BYTES + 1]
    return read_bounded(path, MAX_FILE_BYTES + 1)


def read_bounded(path: Path, limit: int) -> bytes:
    """The first `limit` bytes of a file. A pipe or a device is read while something comes, and never waited for
    longer than `MOST_SECONDS`. Errors: OSError.
    """
    if sys.platform == "win32":  # which has no pipes among its files
        with path.open("rb") as plain:
            return plain.read(limit)
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK)  # opening a pipe waits for its writer
    with os.fdopen(descriptor, "rb", buffering=0) as file:
        parts: list[bytes] = []
        while limit > 0:
            if not select.select([descriptor], [], [], MOST_SECONDS)[0]:
                raise TimeoutError(errno.ETIMEDOUT, f"nothing came within {MOST_SECONDS} seconds")
            part = file.read(min(limit, 1 << 20))
            if not part:
                break
            parts.append(part)
            limit -= len(part)
        return b"".join(parts)


def note_file(path: Path, content: bytes | None = None) -> None:
    """Records a file that was read; without the content, what the file holds now."""
    reads = _CURRENT.get()
    if reads is not None:
        name = str(path.absolute())
        seen = _seen(name) if content is None else (str(real_path(path)), hashlib.sha256(content).hexdigest())
        reads.files.setdefault(name, seen)


def note_folder(path: Path) -> None:
    """Records a folder whose names were searched."""
    reads = _CURRENT.get()
    if reads is not None:
        name = str(path.absolute())
        reads.folders.setdefault(name, names_digest(name))


def _seen(path: str) -> tuple[str, str | None]:
    real = real_path(Path(path))
    try:
        if not real.is_file() or real.stat().st_size > MAX_FILE_BYTES:
            return str(real), None
        return str(real), hashlib.sha256(real.read_bytes()).hexdigest()
    except OSError:
        return str(real), None


def names_digest(path: str) -> str | None:
    """A digest of the names in a folder; None when it cannot be read."""
    try:
        names = sorted(entry.name for entry in Path(path).iterdir())
    except OSError:
        return None
    return hashlib.sha256("\0".join(names).encode(errors="surrogateescape")).hexdigest()
