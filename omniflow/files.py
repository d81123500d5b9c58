"""Writes files so that a reader sees the old one or the whole new one, never a part."""

from __future__ import annotations

import os
import signal
import stat
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

if sys.platform != "win32":
    import fcntl

MOST_SECONDS = 30.0  # that one process waits for another to have written


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
    try:
        mode = path.stat().st_mode
    except OSError:
        return False
    return not stat.S_ISREG(mode) and not stat.S_ISDIR(mode)


def _write_into(path: Path, data: bytes) -> None:
    flags = os.O_WRONLY
    if sys.platform != "win32":
        flags |= os.O_NONBLOCK  # a pipe that nobody reads is an error, not a wait
    descriptor = os.open(path, flags)
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
    if sys.platform == "win32":  # which cannot hold signals back
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


@contextmanager
def one_at_a_time(folder: Path) -> Iterator[None]:
    """Only one process at a time is inside for a folder, which is made; the kernel lets go for one that dies.

    Errors: WriteError, also when another one takes longer than `MOST_SECONDS`.
    """
    if sys.platform == "win32":  # which has no locks on folders
        yield
        return
    try:
        folder.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(folder, os.O_RDONLY)
    except OSError as error:
        raise WriteError(f"cannot write into {folder}: {(error.strerror or 'error').lower()}") from None
    try:
        _lock(descriptor, folder)
        yield
    finally:
        os.close(descriptor)


def _lock(descriptor: int, folder: Path) -> None:
    end = time.monotonic() + MOST_SECONDS
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() > end:
                raise WriteError(f"cannot write into {folder}: another run is writing there") from None
            time.sleep(0.02)
        except OSError:
            return  # a file system without locks
        else:
            return


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
