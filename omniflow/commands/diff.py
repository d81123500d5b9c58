"""`omniflow diff`: what two schedules or specs do differently."""

from __future__ import annotations

import json
from dataclasses import asdict

from omniflow.commands.compile import schedule_of
from omniflow.commands.selection import Selection


def compare_specs(before: Selection, after: Selection, *, as_json: bool) -> int:
    """Prints the differences; 0 when there are none, 1 when there are, 2 when one of the two has faults."""
    schedules = [schedule_of(selection) for selection in (before, after)]
    from omniflow_compiler.difference import compare
    from omniflow_compiler.difference_text import write_changes

    if schedules[0] is None or schedules[1] is None:
        return 2
    changes = compare(schedules[0], schedules[1])
    if as_json:
        print(json.dumps([asdict(change) for change in changes], indent=1, ensure_ascii=False))
    else:
        print("\n".join(write_changes(changes)) if changes else "no difference in meaning")
    return 1 if changes else 0
