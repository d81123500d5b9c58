"""From a program to an engine: compile, then load."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from os import PathLike
from pathlib import Path
from typing import Any

import omniflow_compiler
from omniflow.batcher import Limits
from omniflow.bind import bind
from omniflow.catalog import find_spec
from omniflow.engine import Engine
from omniflow.errors import BindError, InputError
from omniflow.plugins import load_plugins
from omniflow_compiler.config import PROFILES
from omniflow_compiler.quantities import is_device, parse_bytes
from omniflow_compiler.reader import read_schedule
from omniflow_compiler.schedule import Schedule


def compile(
    path: str | PathLike[str],
    outputs: Sequence[str] | None = None,
    params: Mapping[str, str | float | bool] | None = None,
    *,
    devices: str | Mapping[str, str] | None = None,
    budgets: Mapping[str, int | str] | None = None,
    config: str | PathLike[str] | None = None,
    plugins: Sequence[str | PathLike[str]] = (),
    deny: Sequence[str] = (),
) -> Schedule:
    """Compiles a program, a file or a name of the catalogue, to its schedule; only what the outputs need is in it.

    outputs: names to keep, or one text with commas; all when None. params: values of the specs' params. devices: one
    for all components (`"cuda"`), or by component, `default` for the others. budgets: memory per device, in bytes or
    as `"2GiB"`. config: a run configuration, which all these override. plugins: Python files that add experts; they are
    run. deny: codes of lints that are errors, or `warnings` for all.

    Errors: Faults, with everything that is wrong and where; UnknownSpec for a name that is neither a file nor in the
    catalogue; InputError for an argument that cannot be followed; PluginError; TypeError for what is no path.
    """
    return omniflow_compiler.compile(
        find_spec(_path(path, "compile")),
        outputs=[name.strip() for name in outputs.split(",")] if isinstance(outputs, str) else outputs,
        params={name: _text(value) for name, value in (params or {}).items()},
        devices=_devices(devices),
        budgets=_budgets(budgets),
        config=None if config is None else Path(config),
        experts=load_plugins([Path(plugin) for plugin in plugins]),
        deny=deny,
    )


def _path(given: object, who: str) -> str:
    if not isinstance(given, str | PathLike):
        raise TypeError(f"{who} takes the path of a spec or a name of the catalogue, not {type(given).__name__}")
    return os.fspath(given)


def _text(value: str | float | bool) -> str:
    """A param's value as it is written on a command line."""
    return value if isinstance(value, str) else json.dumps(value)


def _devices(given: str | Mapping[str, str] | None) -> Mapping[str, str]:
    devices = {"default": given} if isinstance(given, str) else given or {}
    for device in devices.values():
        if not is_device(device):
            raise InputError(f"there is no device {device!r}; write cpu, cuda or cuda:1")
    return devices


def _budgets(given: Mapping[str, int | str] | None) -> dict[str, int]:
    budgets = {}
    for device, written in (given or {}).items():
        size = parse_bytes(written)
        if size is None or not is_device(device):
            raise InputError(
                f"budgets take a device and a size, such as {{'cpu': '2GiB'}}, not {device!r}: {written!r}"
            )
        budgets[device] = size
    return budgets


def load(
    schedule: Schedule | str | PathLike[str],
    *,
    limits: Limits | None = None,
    profile: str = "serve",
    trace: bool = False,
    experts: Mapping[str, Any] | None = None,
    faults: Sequence[Mapping[str, Any]] = (),
) -> Engine:
    """Loads what the schedule names, once per process, and gives an engine for it.

    schedule: compiled already, or the path of one (`.json`), or a program that `compile` takes.
    experts: ready-made ones by component name, in place of those that would be loaded. profile: `serve`, or
    `rollout` to record every choice and its log-probability, or `test`, which alone takes `faults` (omniflow.faults).
    trace: keep an event of every unit and transfer. Errors: BindError; ScheduleError for a
    file that is no schedule; those of `compile`.
    """
    if profile not in PROFILES:
        raise BindError(f"there is no profile {profile}; known profiles are {', '.join(PROFILES)}")
    return Engine(bind(_schedule(schedule), experts), limits=limits, profile=profile, trace=trace, faults=faults)


def _schedule(given: Schedule | str | PathLike[str]) -> Schedule:
    if isinstance(given, Schedule):
        return given
    if not isinstance(given, str | PathLike):
        raise TypeError(f"load takes a schedule or the path of one, not {type(given).__name__}")
    path = Path(given)
    return read_schedule(path) if path.suffix == ".json" else compile(given)
