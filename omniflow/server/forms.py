"""What OpenAI's forms have in common: the model they name, and which inputs and outputs of a program they are about."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from omniflow.errors import InputError
from omniflow.server.problems import Gone
from omniflow.values import is_starred
from omniflow_compiler.schedule import Input, Output, Schedule

VOICE_NAMES = ("voice", "speaker")


def check_model(model: str | None, program: str) -> None:
    """A form may leave its model out. Errors: Gone for another program's."""
    if model not in (None, program):
        raise Gone(f"there is no model {model}; this is {program}")


def input_of(schedule: Schedule, base: str, names: Sequence[str]) -> Input | None:
    """The first of these names that is an input of that type."""
    known = {spec.name: spec for spec in schedule.inputs if spec.type.base == base and not spec.type.axes}
    return next((known[name] for name in names if name in known), None)


def needs_more(schedule: Schedule, given: Input) -> bool:
    """Whether a request has to have another input too."""
    return any(spec.required for spec in schedule.inputs if spec.name != given.name)


def outputs_of(schedule: Schedule, base: str) -> list[Output]:
    """The outputs of that type that are one value, not a list of them."""
    return [spec for spec in schedule.outputs if spec.type.base == base and not is_starred(spec.type)]


def sound_of(schedule: Schedule) -> Output | None:
    """The first output of sound whose rate is known."""
    return next((spec for spec in outputs_of(schedule, "audio") if spec.type.rate_hz), None)


def image_of(schedule: Schedule) -> Output | None:
    """The first output of a picture."""
    return next(iter(outputs_of(schedule, "image")), None)


def filled(spec: Input | None, value: Any, *, otherwise: str) -> dict[str, Any]:
    """A field as an input; nothing where the client left it out. Errors: InputError(`otherwise`) without an input."""
    if value is None:
        return {}
    if spec is None:
        raise InputError(otherwise)
    return {spec.name: value}
