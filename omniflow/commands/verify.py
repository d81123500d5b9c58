"""`omniflow verify`: one program in every mode, a table, and a failure when any answer differs."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from dataclasses import asdict, replace

from omniflow.commands.arguments import parse_inputs
from omniflow.commands.compile import schedule_of
from omniflow.commands.selection import Selection
from omniflow.commands.threads import choose_threads


def verify_spec(
    selection: Selection, *, inputs: Sequence[str], requests: int, batch_invariant: bool, as_json: bool
) -> int:
    """Prints a row per mode as it is known; 1 when one of them differs."""
    schedule = schedule_of(selection)
    if schedule is None:
        return 1
    from omniflow.commands.values import read_inputs
    from omniflow.errors import OmniFlowError
    from omniflow.inputs import check_inputs
    from omniflow.verification.cases import make_cases
    from omniflow.verification.verify import Row, verify
    from omniflow_compiler.schedule import Schedule

    def pruned(output: str) -> Schedule | None:
        if selection.path.suffix == ".json":
            return None
        return schedule_of(replace(selection, outputs=output))

    try:
        given = read_inputs(schedule, parse_inputs(inputs))
        cases = make_cases(schedule, requests, [given] if given else [])
        for case in cases:
            check_inputs(schedule, case.inputs)
    except OmniFlowError as error:
        print(f"omniflow: {error}", file=sys.stderr)
        return 2
    choose_threads(schedule)
    rows: list[Row] = []
    try:
        for row in verify(schedule, cases, pruned=pruned, batch_invariant=batch_invariant):
            rows.append(row)
            if not as_json:
                _print(row)
    except OmniFlowError as error:
        print(f"omniflow: {error}", file=sys.stderr)
        return 1
    failed = [row for row in rows if not row.holds]
    if as_json:
        print(json.dumps([{**asdict(row), "holds": row.holds} for row in rows], indent=1))
    else:
        print(f"{len(rows) - len(failed)} of {len(rows)} modes give the same answer for {len(cases)} requests")
    return 1 if failed else 0


def _print(row: object) -> None:
    from omniflow.verification.verify import Row

    assert isinstance(row, Row)
    verdict = "same" if row.holds else f"DIFFERS: {row.problem}"
    how = row.comparison if row.difference == 0 else f"{row.comparison} {row.difference:.2g}"
    print(f"{row.mode:<28}{row.requests:>3} requests  {how:<24}{verdict}", flush=True)
