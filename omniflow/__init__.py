"""OmniFlow: runs compiled generative programs, a work unit at a time, on torch experts.

`compile` a program to a schedule, `load` the schedule's experts into an engine, `run` or `stream` requests. Nothing
here imports torch until it is used.
"""

from __future__ import annotations

TYPE_CHECKING = False  # as in `typing`, which takes long to import
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from omniflow.batcher import Limits
    from omniflow.catalog import UnknownSpec
    from omniflow.engine import Engine
    from omniflow.errors import BindError, BusyError, InputError, OmniFlowError
    from omniflow.loading import compile, load
    from omniflow.request import Result, State
    from omniflow.stream import Ended, Piece
    from omniflow_compiler.diagnostics import Faults
    from omniflow_compiler.reader import read_schedule
    from omniflow_compiler.schedule import Schedule, ScheduleError

_HOMES = {
    "BindError": "omniflow.errors",
    "BusyError": "omniflow.errors",
    "Ended": "omniflow.stream",
    "Engine": "omniflow.engine",
    "Faults": "omniflow_compiler.diagnostics",
    "InputError": "omniflow.errors",
    "Limits": "omniflow.batcher",
    "OmniFlowError": "omniflow.errors",
    "Piece": "omniflow.stream",
    "Result": "omniflow.request",
    "Schedule": "omniflow_compiler.schedule",
    "ScheduleError": "omniflow_compiler.schedule",
    "State": "omniflow.request",
    "UnknownSpec": "omniflow.catalog",
    "compile": "omniflow.loading",
    "load": "omniflow.loading",
    "read_schedule": "omniflow_compiler.reader",
}

__all__ = [
    "BindError", "BusyError", "Ended", "Engine", "Faults", "InputError", "Limits", "OmniFlowError", "Piece", "Result",
    "Schedule", "ScheduleError", "State", "UnknownSpec", "compile", "load", "read_schedule",
]  # fmt: skip


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'omniflow' has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(_HOMES[name]), name)


def __dir__() -> Sequence[str]:
    return __all__
