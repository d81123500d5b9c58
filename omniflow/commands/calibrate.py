"""`omniflow calibrate`: measures what units cost here and writes it beside the card, where the compiler reads it."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from omniflow.commands.arguments import BadArgument, parse_inputs
from omniflow.commands.selection import Selection

if TYPE_CHECKING:
    from omniflow.calibration import Key, Timing
    from omniflow_compiler.graph import ProgramGraph
    from omniflow_compiler.pipeline import Compilation
    from omniflow_compiler.schedule import Schedule


def calibrate_spec(selection: Selection, *, inputs: Sequence[str], requests: int) -> int:
    """Prints a row per component and kind of unit; 1 when the program has faults or a request fails."""
    given = parse_inputs(inputs)
    compilation = _compile(selection)
    if compilation.schedule is None or compilation.graph is None:
        return 1
    from omniflow.errors import OmniFlowError
    from omniflow.files import WriteError

    try:
        found = _measure(compilation.schedule, given, requests)
        path = _write(selection, compilation.graph, found)
    except OmniFlowError as error:
        print(f"omniflow: {error}", file=sys.stderr)
        return 1
    except WriteError as error:
        print(f"omniflow: {error}", file=sys.stderr)
        return 1
    _print(compilation.graph, found)
    print(f"{path}: what {selection.spec} takes here is predicted from this from now on")
    return 0


def _compile(selection: Selection) -> Compilation:
    from omniflow_compiler.pipeline import compile_file
    from omniflow_compiler.render import render_report

    if selection.path.suffix == ".json":
        raise BadArgument("costs are kept beside a card: name the program, not its schedule")
    compilation = compile_file(selection.path, selection.options())
    sys.stderr.write(render_report(compilation.report, compilation.sources))
    if not compilation.report.num_errors and compilation.kind != "program":
        raise BadArgument(f"`{selection.spec}` is a {compilation.kind}; calibrate the programs that it is made of")
    return compilation


def _measure(schedule: Schedule, given: Mapping[str, list[str]], requests: int) -> dict[Key, Timing]:
    from omniflow.calibration import CalibrationError, measure
    from omniflow.commands.values import read_inputs
    from omniflow.errors import OmniFlowError
    from omniflow.verification.cases import make_cases

    own = read_inputs(schedule, given)
    cases = make_cases(schedule, requests, [own] if own else [])
    try:
        return measure(schedule, [(case.inputs, case.seed) for case in cases])
    except CalibrationError as error:
        raise OmniFlowError(str(error)) from None


def _write(selection: Selection, graph: ProgramGraph, found: Mapping[Key, Timing]) -> Path:
    """Puts the components' costs into the file beside the card; what it says of others stays. Errors: WriteError."""
    from omniflow.files import write_text
    from omniflow_compiler.cards import find_card
    from omniflow_compiler.costs import FORMAT, CostsError, costs_path, parse_file
    from omniflow_compiler.diagnostics import Report
    from omniflow_compiler.source import SourceSet

    program = selection.path.absolute()
    card = find_card(program, graph.program.card, SourceSet(program.parent.parent.resolve()), Report())
    assert card is not None  # the program has just been compiled with it
    path = costs_path(card[0])
    try:
        cards = parse_file(path.read_text(encoding="utf-8"))["cards"]
    except (OSError, UnicodeDecodeError, CostsError):
        cards = {}  # there is none that could be read
    before = cards.get(graph.card.id.text)
    cards[graph.card.id.text] = {**(before if isinstance(before, dict) else {}), **_entries(graph, found)}
    body = {"omniflow": 1, "kind": "costs", "format": FORMAT, "cards": cards}
    write_text(path, json.dumps(body, indent=1, sort_keys=True, ensure_ascii=False) + "\n")
    return path


def _entries(graph: ProgramGraph, found: Mapping[Key, Timing]) -> dict[str, Any]:
    entries: dict[str, Any] = {}
    for (name, kind), timing in sorted(found.items()):
        component = graph.components[name]
        entry = entries.setdefault(name, {
            "use": component.signature.use, "dtype": component.spec.dtype, "device": component.spec.device,
            "parameters": component.num_parameters, "units": {},
        })  # fmt: skip
        entry["units"][kind] = {
            "seconds": _digits(timing.unit_seconds),
            "count": timing.units,
            "widths": {str(width): _digits(seconds) for width, seconds in timing.widths.items()},
        }
    return entries


def _print(graph: ProgramGraph, found: Mapping[Key, Timing]) -> None:
    from omniflow_compiler.account_text import show_seconds

    for (name, kind), timing in sorted(found.items()):
        before = graph.components[name].signature.unit_seconds.get(kind)
        said = "nothing was declared" if before is None else f"predicted until now {show_seconds(before)}"
        widest, seconds = list(timing.widths.items())[-1]
        print(
            f"{name:<14}{kind:<16}{timing.units:>6} units  {show_seconds(timing.unit_seconds):>9} each, "
            f"{show_seconds(seconds)} in batches of {widest}; {said}"
        )


def _digits(seconds: float) -> float:
    return float(f"{seconds:.4g}")
