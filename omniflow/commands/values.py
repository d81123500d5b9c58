"""Inputs as they are written on a command line: text as it is, JSON for data, `@path` for what a file holds."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from omniflow.errors import InputError
from omniflow.media import FILE, read_file
from omniflow.values import is_starred
from omniflow_compiler.schedule import Input, Schedule


def read_inputs(schedule: Schedule, written: Mapping[str, str | list[str]]) -> dict[str, Any]:
    """Values of the written inputs, of which one of items may be written several times, an item each.

    Unknown names stay for the engine to refuse. Errors: InputError.
    """
    declared = {spec.name: spec for spec in schedule.inputs}
    texts = {name: [text] if isinstance(text, str) else text for name, text in written.items()}
    return {name: _all(declared[name], own) if name in declared else own[0] for name, own in texts.items()}


def _all(spec: Input, texts: Sequence[str]) -> Any:
    if len(texts) == 1:
        return _read(spec, texts[0])
    if not is_starred(spec.type):
        raise InputError(f"input {spec.name} is {spec.type.text}, a single one; it is given {len(texts)} times")
    values = [_read(spec, text) for text in texts]
    return [item for value in values for item in (value if isinstance(value, list) else [value])]


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
