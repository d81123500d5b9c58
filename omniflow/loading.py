"""From a program to an engine: compile, then load."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from os import PathLike
from typing import Any

import omniflow_compiler
from omniflow.batcher import Limits
from omniflow.bind import bind
from omniflow.catalog import find_spec
from omniflow.engine import Engine
from omniflow_compiler.schedule import Schedule


def compile(
    path: str | PathLike[str], outputs: Sequence[str] | None = None, params: Mapping[str, str] | None = None
) -> Schedule:
    """Compiles a program, a file or a name of the catalogue, to its schedule; only what the outputs need is in it.

    Errors: omniflow_compiler's Faults, with everything that is wrong and where; UnknownSpec for an unknown name.
    """
    return omniflow_compiler.compile(find_spec(os.fspath(path)), outputs=outputs, params=params)


def load(
    schedule: Schedule,
    *,
    limits: Limits | None = None,
    profile: str = "serve",
    trace: bool = False,
    experts: Mapping[str, Any] | None = None,
    faults: Sequence[Mapping[str, Any]] = (),
) -> Engine:
    """Loads what the schedule names, once per process, and gives an engine for it.

    experts: ready-made ones by component name, in place of those that would be loaded. profile: `serve`, or
    `rollout` to record every choice and its log-probability, or `test`, which alone takes `faults` (omniflow.faults).
    trace: keep an event of every unit and transfer. Errors: BindError.
    """
    return Engine(bind(schedule, experts), limits=limits, profile=profile, trace=trace, faults=faults)
