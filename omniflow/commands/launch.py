"""`omniflow run`: gets the schedule, then hands it to the runtime."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from omniflow.commands.arguments import BadArgument, parse_inputs, parse_pairs
from omniflow.commands.compile import schedule_of
from omniflow.commands.selection import Selection
from omniflow_compiler.config import PROFILES

if TYPE_CHECKING:
    from omniflow_compiler.config import Config
    from omniflow_compiler.faults import FaultSpec
    from omniflow_compiler.schedule import Schedule


def launch(
    selection: Selection,
    *,
    inputs: Sequence[str],
    params: Sequence[str],
    out: Path,
    seed: int,
    rng: str,
    profile: str | None,
    as_json: bool,
    trace: bool,
    report: bool = False,
) -> int:
    """Runs one request; the exit code of the run."""
    if profile is not None and profile not in PROFILES:
        raise BadArgument(f"--profile {profile}: known profiles are {', '.join(PROFILES)}")
    given, own = parse_inputs(inputs), parse_pairs(params, "--param")
    schedule = schedule_of(selection)
    if schedule is None:
        return 1
    config = read_run_config(selection, profile)
    from omniflow.batcher import Limits
    from omniflow.commands.run import run

    return run(
        schedule,
        inputs=given,
        params=own,
        out=out,
        seed=seed,
        rng=rng,
        profile=profile or config.profile or "serve",
        as_json=as_json,
        trace=trace,
        report=report,
        limits=Limits(unit_seconds=config.unit_seconds),
        faults=[_fault(fault, schedule) for fault in config.faults],
    )


def read_run_config(selection: Selection, profile: str | None) -> Config:
    """The run configuration, which compiling has found sound. Errors: BadArgument for faults in another profile."""
    from omniflow_compiler.config import Config, read_config
    from omniflow_compiler.diagnostics import Report
    from omniflow_compiler.source import SourceSet

    if selection.config is None:
        return Config()
    config = read_config(selection.config, SourceSet(selection.config.absolute().parent), Report())
    if config.faults and profile not in (None, "test"):
        where = f"{selection.config}:{config.faults[0].span.line}"
        raise BadArgument(f"--profile {profile}: the faults of {where} are for profile test (OF1501)")
    return config


def _fault(spec: FaultSpec, schedule: Schedule) -> dict[str, Any]:
    """A fault as the engine takes it."""
    from omniflow_compiler.faults import find_edge

    at = find_edge(spec.at.text, schedule) if spec.is_edge else spec.at.text
    return {"at": at, "kind": spec.do.text, "number": spec.number, "request": spec.request}
