"""Inputs as they are written on a command line: text as it is, JSON for data, `@path` for what a file holds."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from omniflow.errors import InputError
from omniflow.media import FILE, read_file
from omniflow_compiler.schedule import Input, Schedule


def read_inputs(schedule: Schedule, written: Mapping[str, str]) -> dict[str, Any]:
    """Values of the written inputs; unknown names stay for the engine to refuse. Errors: InputError."""
    declared = {spec.name: spec for spec in schedule.inputs}
    return {name: _read(declared[name], text) if name in declared else text for name, text in written.items()}


def _read(spec: Input, text: str) -> Any:
    """`@path` is a file, `@@...` a text that begins with an @. What can only be a file needs no mark."""
    kind = spec.type
    if text.startswith(FILE) and not text.startswith(FILE * 2):
        return read_file(spec, text[1:])
    if kind.base == "text" and not kind.axes:
        return text[1:] if text.startswith(FILE * 2) else text
    if kind.base in ("json", "record", "scalar", "tokens", "codes", "text"):
        try:
            return json.loads(text)
        except json.JSONDecodeError as error:
            raise InputError(f"input {spec.name} must be {kind.text}, written as JSON: {error}") from None
    return read_file(spec, text)
