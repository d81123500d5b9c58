"""Reads a schedule back from its file, refusing anything that is not one this version can run."""

from __future__ import annotations

import json
import types
from collections.abc import Mapping
from dataclasses import MISSING, fields, is_dataclass
from functools import cache
from pathlib import Path
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from omniflow_compiler.made import MADE, RESERVED
from omniflow_compiler.names import is_file_name
from omniflow_compiler.reads import read_bounded
from omniflow_compiler.schedule import FORMAT_VERSION, LANGUAGE_VERSION, Place, Schedule, ScheduleError, content_hash

MAX_SCHEDULE_BYTES = 256 * 1024 * 1024


def map_path(path: Path) -> Path:
    """Where the places of a schedule file are kept: `x.schedule.json` has `x.schedule.map.json` beside it."""
    return path.with_name(f"{path.name.removesuffix('.json')}.map.json")


def read_schedule(path: Path) -> Schedule:
    """The schedule in a file, with places when its map is beside it. Errors: ScheduleError."""
    schedule_text = _read(path)
    places = _read_places(map_path(path))
    return parse_schedule(schedule_text, path.name, places)


def parse_schedule(text: str, name: str, places: Mapping[str, Any] | None = None) -> Schedule:
    """The schedule in a text. Errors: ScheduleError."""
    try:
        body = json.loads(text)
    except (ValueError, RecursionError):
        raise ScheduleError(f"{name}: not a schedule: not valid JSON; compile the program again") from None
    if not isinstance(body, dict) or body.get("kind") != "schedule":
        made = MADE.get(str(body.get("kind"))) if isinstance(body, dict) else None
        what = "its `kind` is not `schedule`" if made is None else f"it is {made[0]}"
        raise ScheduleError(f"{name}: not a schedule: {what}")
    version = (body.get("omniflow"), body.get("format"))
    if version != (LANGUAGE_VERSION, FORMAT_VERSION):
        raise ScheduleError(
            f"{name}: schedule of language {version[0]}, format {version[1]}; this version runs language "
            f"{LANGUAGE_VERSION}, format {FORMAT_VERSION}: compile the program again"
        )
    known = (places or {}).get("places", {}) if (places or {}).get("hash") == body.get("content_hash") else {}
    content = {key: value for key, value in body.items() if key not in ("omniflow", "kind", "format")}
    schedule = _build(Schedule, content, "", known, name)
    assert isinstance(schedule, Schedule)
    if content_hash(schedule) != schedule.content_hash:
        raise ScheduleError(f"{name}: schedule was changed after it was compiled: its hash does not match its content")
    for output in schedule.outputs:
        if not is_file_name(output.name) or output.name.lower() in RESERVED:
            raise ScheduleError(f"{name}: not a schedule: `{output.name[:80]}` cannot be an output's name")
    return schedule


def _read(path: Path) -> str:
    try:
        if path.stat().st_size > MAX_SCHEDULE_BYTES:
            raise ScheduleError(f"{path.name}: larger than {MAX_SCHEDULE_BYTES} bytes")
        return read_bounded(path, MAX_SCHEDULE_BYTES).decode()
    except OSError as error:
        raise ScheduleError(f"{path.name}: cannot be read: {(error.strerror or 'error').lower()}") from None
    except UnicodeDecodeError:
        raise ScheduleError(f"{path.name}: not a schedule: not UTF-8") from None


def _read_places(path: Path) -> Mapping[str, Any] | None:
    """The map beside a schedule; a missing or unreadable one only costs line numbers."""
    try:
        body = json.loads(read_bounded(path, MAX_SCHEDULE_BYTES))
    except (OSError, ValueError, RecursionError):
        return None
    return body if isinstance(body, dict) and isinstance(body.get("places"), dict) else None


@cache
def _hints(kind: type) -> dict[str, Any]:
    return get_type_hints(kind)


def _build(hint: Any, value: Any, path: str, places: Mapping[str, Any], name: str) -> Any:
    """A value of the hinted type; every dataclass of the schedule is checked key by key."""
    if hint is Place:
        try:
            file, line, column = places[path]
            return Place(file=str(file), line=int(line), column=int(column))
        except (KeyError, TypeError, ValueError):
            return Place(file=name, line=0, column=0)
    if isinstance(hint, type) and is_dataclass(hint):
        return _build_record(hint, value, path, places, name)
    origin, arguments = get_origin(hint), get_args(hint)
    if origin is tuple:
        if not isinstance(value, list):
            raise _wrong(name, path)
        return tuple(_build(arguments[0], item, f"{path}/{i}", places, name) for i, item in enumerate(value))
    if origin in (Union, types.UnionType):
        if value is None and type(None) in arguments:
            return None
        return _build(next(a for a in arguments if a is not type(None)), value, path, places, name)
    if origin is Literal:
        if value not in arguments:
            raise _wrong(name, path)
        return value
    if hint is float and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    if origin is Mapping or origin is dict:
        if not isinstance(value, dict):
            raise _wrong(name, path)
        return value
    if hint in (str, int, float, bool) and type(value) is not hint:
        raise _wrong(name, path)
    return value


def _build_record(kind: type, value: Any, path: str, places: Mapping[str, Any], name: str) -> Any:
    if not isinstance(value, dict):
        raise _wrong(name, path)
    declared = {field.name: field for field in fields(kind)}
    unknown = sorted(set(value) - set(declared))
    if unknown:
        raise ScheduleError(f"{name}: not a schedule of this version: unknown key `{path}/{unknown[0]}`")
    built = {}
    for key, field in declared.items():
        if key == "place":
            built[key] = _build(Place, None, path, places, name)
        elif key in value:
            built[key] = _build(_hints(kind)[key], value[key], f"{path}/{key}", places, name)
        elif field.default is MISSING and field.default_factory is MISSING:
            raise ScheduleError(f"{name}: not a schedule of this version: `{path}/{key}` is missing")
    return kind(**built)


def _wrong(name: str, path: str) -> ScheduleError:
    return ScheduleError(f"{name}: not a schedule of this version: `{path or '/'}` has the wrong type")
