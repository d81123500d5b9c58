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
    """Writes bytes atomically, making the folder when it is not there; a link goes on leading where it leads.

    What is no file of a disk, such as a pipe or `/dev/null`, is written to and never replaced. Errors: WriteError.
    """
    try:
        if is_special(path):
            _write_into(path, data)
        else:
            _replace(path.resolve(), data)
    except (FileExistsError, NotADirectoryError):
        raise WriteError(f"cannot write {path}: {path.parent} is not a folder") from None
    except (OSError, RuntimeError) as error:  # the latter for links in a circle
        reason = error.strerror if isinstance(error, OSError) else "its links lead in a circle"
        raise WriteError(f"cannot write {path}: {(reason or 'error').lower()}") from None


def is_special(path: Path) -> bool:
    """Whether something is there that is neither a file nor a folder."""
    return path.exists() and not path.is_file() and not path.is_dir()


def _write_into(path: Path, data: bytes) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_NONBLOCK)  # a pipe that nobody reads is an error, not a wait
    os.set_blocking(descriptor, True)
    with os.fdopen(descriptor, "wb") as file:
        file.write(data)


def _replace(path: Path, data: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with _uninterrupted():
        descriptor, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name[:100]}.")
        try:
            with os.fdopen(descriptor, "wb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            Path(temporary).chmod(0o666 & ~_umask())
            os.replace(temporary, path)
        except BaseException:
            Path(temporary).unlink(missing_ok=True)
            raise


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
