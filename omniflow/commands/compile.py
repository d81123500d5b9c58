"""`omniflow compile`: a program to its schedule, and the one way every other command gets a schedule."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

from omniflow.commands.arguments import BadArgument, parse_format
from omniflow.commands.selection import Selection

if TYPE_CHECKING:
    from omniflow_compiler.schedule import Schedule


def compile_spec(
    selection: Selection,
    *,
    output: Path | None,
    explain: str | None = None,
    dump_after: str | None = None,
    format: str = "text",
) -> int:
    """Writes the schedule and, beside it, the map of places; `-` prints the schedule alone.

    With `explain` (text or json) or `dump_after` (a pass) that is printed, and a schedule is written only where
    `output` says.
    """
    if dump_after is not None:
        from omniflow.commands.dump import dump_graph

        return dump_graph(selection, dump_after)
    if explain is not None:
        from omniflow.commands.why import check_format

        check_format(explain, "--explain")
    schedule = schedule_of(selection, parse_format(format))
    if schedule is None:
        return 1
    if explain is not None:
        from omniflow.commands.why import explain_schedule

        sys.stdout.write(explain_schedule(schedule, explain))
        if output is None:
            return 0
    if output is not None and str(output) == "-":
        sys.stdout.write(schedule.to_json())
        return 0
    return write_schedule(schedule, output or Path(f"{selection.path.name.split('.')[0]}.schedule.json"))


def write_schedule(schedule: Schedule, path: Path) -> int:
    """Writes both files atomically; 1 when that fails."""
    from omniflow.files import WriteError, is_special, write_text
    from omniflow_compiler.reader import map_path

    try:
        if not is_special(path):
            write_text(map_path(path), schedule.to_map())
        write_text(path, schedule.to_json())
    except WriteError as error:
        print(f"omniflow: {error}", file=sys.stderr)
        return 1
    print(f"{path}: {len(schedule.nodes)} nodes, {len(schedule.experts)} experts, {schedule.content_hash[:12]}")
    return 0


def schedule_of(selection: Selection, format: str = "text") -> Schedule | None:
    """The schedule of a spec, a schedule file or a catalogue name; None after its faults were printed.

    Findings go to standard error, in the form that `format` names.
    """
    path = selection.path
    if path.suffix == ".json":
        return _read(path, selection)
    from omniflow_compiler.formats import FORMATS
    from omniflow_compiler.pipeline import compile_file

    compilation = compile_file(path, selection.options())
    sys.stderr.write(FORMATS[format]([(compilation.report, compilation.sources)]))
    if compilation.schedule is None and not compilation.report.num_errors:
        raise BadArgument(f"`{selection.spec}` is a {compilation.kind}; name a program of it")
    return compilation.schedule


def _read(path: Path, selection: Selection) -> Schedule | None:
    from omniflow.plugins import load_plugins
    from omniflow_compiler.reader import read_schedule
    from omniflow_compiler.schedule import ScheduleError

    if not selection.is_plain:
        raise BadArgument(
            "outputs, values, devices and memory are decided when a schedule is compiled; compile the program again"
        )
    load_plugins(selection.plugins)
    try:
        return read_schedule(path)
    except ScheduleError as error:
        print(f"omniflow: {error}", file=sys.stderr)
        return None
