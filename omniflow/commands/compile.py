"""`omniflow compile`: a program to its schedule, and the one way every other command gets a schedule."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from omniflow.catalog import find_spec
from omniflow.commands.arguments import BadArgument, parse_budgets, parse_names, parse_pairs

if TYPE_CHECKING:
    from omniflow_compiler.schedule import Schedule


def compile_spec(
    spec: str, *, output: Path | None, outputs: str | None, settings: Sequence[str], budgets: Sequence[str]
) -> int:
    """Writes the schedule and, beside it, the map of places; `-` prints the schedule alone."""
    schedule = schedule_of(spec, outputs=outputs, settings=settings, budgets=parse_budgets(budgets))
    if schedule is None:
        return 1
    if output is not None and str(output) == "-":
        sys.stdout.write(schedule.to_json())
        return 0
    path = output or Path(f"{find_spec(spec).name.split('.')[0]}.schedule.json")
    return write_schedule(schedule, path)


def write_schedule(schedule: Schedule, path: Path) -> int:
    """Writes both files atomically; 1 when that fails."""
    from omniflow.files import WriteError, write_text
    from omniflow_compiler.reader import map_path

    try:
        write_text(map_path(path), schedule.to_map())
        write_text(path, schedule.to_json())
    except WriteError as error:
        print(f"omniflow: {error}", file=sys.stderr)
        return 1
    print(f"{path}: {len(schedule.nodes)} nodes, {len(schedule.experts)} experts, {schedule.content_hash[:12]}")
    return 0


def schedule_of(
    spec: str, *, outputs: str | None, settings: Sequence[str], budgets: Mapping[str, int] | None = None
) -> Schedule | None:
    """The schedule of a spec, a schedule file or a catalogue name; None after its faults were printed."""
    path = find_spec(spec)
    if path.suffix == ".json":
        return _read(path, outputs, settings)
    from omniflow_compiler.pipeline import Options, compile_file
    from omniflow_compiler.render import render_report

    options = Options(
        outputs=parse_names(outputs, "--outputs"), params=parse_pairs(settings, "--set"), budgets=budgets or {}
    )
    compilation = compile_file(path, options)
    text = render_report(compilation.report, compilation.sources)
    if text:
        sys.stderr.write(text)
    if compilation.schedule is None and not compilation.report.num_errors:
        raise BadArgument(f"`{spec}` is a {compilation.kind}; name a program of it")
    return compilation.schedule


def _read(path: Path, outputs: str | None, settings: Sequence[str]) -> Schedule | None:
    from omniflow_compiler.reader import read_schedule
    from omniflow_compiler.schedule import ScheduleError

    if outputs is not None or settings:
        raise BadArgument("--outputs and --set are decided when a schedule is compiled; compile the program again")
    try:
        return read_schedule(path)
    except ScheduleError as error:
        print(f"omniflow: {error}", file=sys.stderr)
        return None
