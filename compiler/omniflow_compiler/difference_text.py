"""Differences of two schedules as text: one line each, `-` for what went, `+` for what came, `~` for what changed."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence

from omniflow_compiler.account_text import show_seconds
from omniflow_compiler.difference import Change
from omniflow_compiler.quantities import show_bytes
from omniflow_compiler.schedule import Json

MARKS = {"added": "+", "removed": "-", "changed": "~", "renamed": ">"}
MAX_VALUE = 80


def write_changes(changes: Sequence[Change]) -> Iterator[str]:
    """A line per change."""
    for change in changes:
        name = f"{change.part} {change.name}".rstrip()
        mark = MARKS[change.kind]
        if change.kind == "renamed":
            yield f"{mark} {name} is now {change.after}"
        elif change.kind == "changed":
            field = f" {change.field}" if change.field != "value" else ""
            yield f"{mark} {name}{field}: {_shown(change, change.before)} -> {_shown(change, change.after)}"
        else:
            body = change.before if change.kind == "removed" else change.after
            yield f"{mark} {name}: {', '.join(f'{key} {_value(value, key)}' for key, value in body.items())}".rstrip(
                ": "
            )


def _shown(change: Change, value: Json) -> str:
    if change.part == "memory" and isinstance(value, int):
        return show_bytes(value)
    if change.part == "cost" and isinstance(value, float):
        return show_seconds(value)
    return _value(value, change.field)


def _value(value: Json, field: str) -> str:
    if field.endswith("bytes") and isinstance(value, int):
        return show_bytes(value)
    text = value if isinstance(value, str) and value else json.dumps(value, ensure_ascii=False)
    return text if len(text) <= MAX_VALUE else f"{text[: MAX_VALUE - 3]}..."
