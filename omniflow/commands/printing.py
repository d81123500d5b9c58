"""Prints while a run goes on: a reader that has gone, or a disk that is full, ends the printing and not the run."""

from __future__ import annotations

import os
import sys
from typing import TextIO


class Printer:
    """Writes to standard output or standard error until that fails; `problem` then says why."""

    def __init__(self, stream: TextIO) -> None:
        self.stream = stream
        self.problem: str | None = None
        self.is_full = False  # whether what was printed is lost for want of room, and not because nobody reads it

    def write(self, text: str) -> None:
        """Writes and flushes."""
        if self.problem is not None:
            return
        try:
            self.stream.write(text)
            self.stream.flush()
        except OSError as error:
            self.problem = (error.strerror or "error").lower()
            self.is_full = not isinstance(error, BrokenPipeError)
            discard(self.stream)

    def line(self, text: str) -> None:
        """Writes a line."""
        self.write(f"{text}\n")


def discard(stream: TextIO) -> None:
    """From now on what the stream is given, and what it still holds, goes nowhere."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, stream.fileno())
    os.close(nowhere)


def complain(line: str) -> None:
    """A line to standard error, if somebody reads it."""
    Printer(sys.stderr).line(f"omniflow: {line}")
