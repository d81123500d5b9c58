"""Writes files so that a reader sees the old one or the whole new one, never a part."""

from __future__ import annotations

import os
import signal
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


class WriteError(Exception):
    """A file that could not be written; the message names it and the cause."""


def write_text(path: Path, text: str) -> None:
    """Writes a text atomically. Errors: WriteError."""
    write_bytes(path, text.encode("utf-8"))


def write_bytes(path: Path, data: bytes) -> None:
    """Writes bytes atomically, making the folder when it is not there. Errors: WriteError."""
    temporary = None
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with _uninterrupted():
            descriptor, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name[:100]}.")
            with os.fdopen(descriptor, "wb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            Path(temporary).chmod(0o666 & ~_umask())
            os.replace(temporary, path)
    except OSError as error:
        if temporary is not None:
            Path(temporary).unlink(missing_ok=True)
        raise WriteError(f"cannot write {path}: {(error.strerror or 'error').lower()}") from None


@contextmanager
def _uninterrupted() -> Iterator[None]:
    """Ctrl-C waits until the file is there, so that none is left half written."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
