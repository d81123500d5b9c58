"""`omniflow graph`: gets the schedule, then draws it."""

from __future__ import annotations

from pathlib import Path

from omniflow.commands.arguments import BadArgument
from omniflow.commands.compile import schedule_of
from omniflow.commands.selection import Selection

FORMATS = ("svg", "png", "html", "mmd", "dot", "json")


def sketch(selection: Selection, *, output: Path | None, format: str | None, run: Path | None) -> int:
    """Draws the program into the output; 1 when the spec has faults."""
    to_stdout = output is None or str(output) == "-"
    chosen = format or ("mmd" if output is None or to_stdout else output.suffix.lstrip("."))
    if chosen not in FORMATS:
        raise BadArgument(f"cannot draw `{chosen}`: known formats are {', '.join(FORMATS)}")
    schedule = schedule_of(selection)
    if schedule is None:
        return 1
    from omniflow.commands.graph import draw

    return draw(schedule, output=None if to_stdout else output, format=chosen, run=run)
