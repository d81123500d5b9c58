"""`omniflow run`: gets the schedule, then hands it to the runtime."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from omniflow.commands.arguments import BadArgument, parse_pairs
from omniflow.commands.compile import schedule_of
from omniflow.commands.selection import Selection

PROFILES = ("serve", "rollout")


def launch(
    selection: Selection,
    *,
    inputs: Sequence[str],
    params: Sequence[str],
    out: Path,
    seed: int,
    profile: str,
    as_json: bool,
    trace: bool,
) -> int:
    """Runs one request; the exit code of the run."""
    if profile not in PROFILES:
        raise BadArgument(f"--profile {profile}: known profiles are {', '.join(PROFILES)}")
    pairs, own = parse_pairs(inputs, "--input"), parse_pairs(params, "--param")
    schedule = schedule_of(selection)
    if schedule is None:
        return 1
    from omniflow.commands.run import run

    return run(schedule, inputs=pairs, params=own, out=out, seed=seed, profile=profile, as_json=as_json, trace=trace)
