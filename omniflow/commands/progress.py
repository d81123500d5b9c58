"""What a person sees while a program runs: live tables on a terminal, plain lines elsewhere; text as it comes."""

from __future__ import annotations

import sys
from types import TracebackType
from typing import Any, Protocol, Self

from rich.console import Console, Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from omniflow.commands.printing import Printer
from omniflow.engine import Engine
from omniflow.node import NodeRun
from omniflow.stream import Piece
from omniflow_compiler.schedule import Schedule

REFRESH_SECONDS = 0.1


class Progress(Protocol):
    """Shows a run; used as a context manager around it."""

    def __enter__(self) -> Self: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None
    ) -> None: ...

    def piece(self, piece: Piece) -> None:
        """A piece of an output came."""

    def tick(self, engine: Engine, request: int) -> None:
        """A step was made."""


def make_progress(schedule: Schedule, out: Printer, *, quiet: bool) -> Progress:
    """Live when standard error is a terminal; `quiet` leaves standard output to something else."""
    texts = frozenset(output.name for output in schedule.outputs if output.type.text == "text")
    shown = frozenset() if quiet else frozenset(sorted(texts)[:1])  # one stream of text at a time is readable
    return LiveProgress(shown, out) if sys.stderr.isatty() else PlainProgress(shown, out)


def describe(run: NodeRun) -> str:
    """What a loop has done: tokens, chunks, steps, and seconds of sound."""
    count, spec = run.count, run.bound.spec
    parts = []
    if spec.name == "ar_decode":
        frames = None if "tokens" in count.emitted else count.emitted.get("codes")
        parts.append(_counted(count.emitted.get("tokens", 0), "token") if frames is None else _counted(frames, "frame"))
    else:
        parts.append(_counted(count.num_units, "chunk" if spec.name == "audio_decode" else "unit"))
    if spec.each:
        parts.append(_counted(count.items, "item"))
    for port in spec.outputs:
        if port.type.base == "audio" and port.type.rate_hz:
            parts.append(f"{count.emitted.get(port.name, 0) / port.type.rate_hz:.1f} s of audio")
    return ", ".join(parts)


def _counted(count: float, noun: str) -> str:
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


class PlainProgress:
    """Text to standard output as it comes, a line per finished loop to standard error."""

    def __init__(self, shown: frozenset[str], out: Printer) -> None:
        self.shown = shown
        self.out, self.err = out, Printer(sys.stderr)
        self.reported: set[str] = set()
        self.is_mid_line = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._end_line()

    def piece(self, piece: Piece) -> None:
        """Writes text."""
        if piece.output in self.shown and piece.data:
            self.out.write(piece.data)
            self.is_mid_line = True

    def tick(self, engine: Engine, request: int) -> None:
        """Reports loops that have finished."""
        running = engine.running.get(request)
        for run in running.nodes if running is not None else ():
            node = run.bound.spec.id
            if run.is_finished and run.bound.spec.kind == "loop" and node not in self.reported:
                self.reported.add(node)
                if sys.stdout.isatty():
                    self._end_line()
                self.err.line(f"{node}: {describe(run)}")

    def _end_line(self) -> None:
        if self.is_mid_line:
            self.out.line("")
            self.is_mid_line = False


class LiveProgress:
    """A table that is redrawn; text above it, or to standard output when that is not the terminal."""

    def __init__(self, shown: frozenset[str], out: Printer) -> None:
        self.shown = shown
        self.out = out
        self.console = Console(stderr=True)
        self.live = Live(console=self.console, transient=True, auto_refresh=False)
        self.text = ""
        self.drawn = -1.0

    def __enter__(self) -> Self:
        self.live.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.live.stop()
        if self.text:
            self.out.line(self.text)

    def piece(self, piece: Piece) -> None:
        """Keeps text for the next drawing."""
        if piece.output in self.shown and piece.data:
            self.text += piece.data

    def tick(self, engine: Engine, request: int) -> None:
        """Redraws, a few times a second."""
        running, now = engine.running.get(request), engine.now()
        if running is None or now - self.drawn < REFRESH_SECONDS:
            return
        self.drawn = now
        table = Table(box=None, show_header=False, padding=(0, 2, 0, 0))
        for run in running.nodes:
            if run.bound.spec.kind == "loop":
                mark = "✓" if run.is_finished else "·" if run.count.num_units == 0 else "▸"
                table.add_row(mark, run.bound.spec.id, describe(run), f"{run.count.seconds:.1f} s")
        self.live.update(self._frame(table), refresh=True)

    def _frame(self, table: Table) -> Any:
        if not self.text:
            return table
        lines = max(self.console.height - table.row_count - 3, 1)
        tail = Text(self.text).wrap(self.console, self.console.width)[-lines:]
        return Group(*tail, Text(""), table)
