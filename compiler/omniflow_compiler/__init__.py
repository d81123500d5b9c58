"""OmniFlow's compiler: checks, plans and lowers specs to schedules, without torch."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from os import PathLike
from typing import TYPE_CHECKING

from omniflow_compiler.version import VERSION

if TYPE_CHECKING:
    from omniflow_compiler.library.signature import ExpertSignature
    from omniflow_compiler.schedule import Schedule

__all__ = ["VERSION", "compile"]


def compile(
    path: str | PathLike[str],
    *,
    outputs: Sequence[str] | None = None,
    params: Mapping[str, str] | None = None,
    devices: Mapping[str, str] | None = None,
    budgets: Mapping[str, int] | None = None,
    config: str | PathLike[str] | None = None,
    experts: Sequence[ExpertSignature] = (),
    deny: Collection[str] = (),
) -> Schedule:
    """Compiles a program to its schedule.

    path: the program's file. outputs: names of the outputs to keep, all when None. params: values that override the
    specs' defaults. devices: by component, or `default`. budgets: bytes per device. config: a run configuration, which
    all these override. experts: signatures beside those that are installed. deny: codes of lints that are errors, or
    `warnings` for all. Errors: `Faults`, whose report has everything that is wrong.
    """
    from pathlib import Path

    from omniflow_compiler import codes
    from omniflow_compiler.library.library import BUILT_IN
    from omniflow_compiler.pipeline import Options, compile_file
    from omniflow_compiler.source import Span

    options = Options(
        outputs=outputs,
        params=params or {},
        devices=devices or {},
        budgets=budgets or {},
        config=None if config is None else Path(config),
        library=BUILT_IN.with_experts(experts),
        deny=deny,
    )
    compilation = compile_file(Path(path), options)
    if compilation.schedule is None and not compilation.report.num_errors:
        here = Span(compilation.sources.name_of(Path(path)), 1, 1, 1, 1)
        compilation.report.add(codes.KIND, here, f"a {compilation.kind} cannot be run", help=["name a program"])
    compilation.report.raise_if_errors()
    assert compilation.schedule is not None
    return compilation.schedule
