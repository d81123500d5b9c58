"""Checks a request's inputs against the schedule, before anything runs."""

from __future__ import annotations

import difflib
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from omniflow.errors import InputError
from omniflow.lengths import length_problems, limit_problems
from omniflow.values import Value, dtype_of, is_starred
from omniflow_compiler.schedule import Input, PortType, Schedule

FAR_OUT = 1e12  # learned values are of the order of 1; squares of squares of these overflow float32
IDS = frozenset({"tokens", "codes"})  # types of ids


def check_inputs(schedule: Schedule, given: Mapping[str, Any]) -> dict[str, Value]:
    """Every program input's value, defaults filled in. Errors: InputError listing all that is wrong."""
    if not isinstance(given, Mapping):
        raise InputError(f"inputs are a mapping of names to values: got {type(given).__name__}")
    declared = {spec.name: spec for spec in schedule.inputs}
    problems = [_unknown("input", name, declared, schedule.program) for name in given if name not in declared]
    values: dict[str, Value] = {}
    for spec in schedule.inputs:
        if spec.name not in given:
            if spec.required:
                problems.append(f"input {spec.name} ({spec.type.text}) is missing; {spec.place} declares it")
            else:
                values[spec.name] = spec.default
            continue
        try:
            values[spec.name] = convert(spec, given[spec.name])
            problems += limit_problems(spec, values[spec.name])
        except (ValueError, TypeError) as error:
            problems.append(f"input {spec.name} must be {spec.type.text}: {error}")
    problems = problems or length_problems(schedule, values)
    if problems:
        raise InputError("; ".join(problems))
    return values


def check_outputs(schedule: Schedule, wanted: Sequence[str] | None) -> frozenset[str]:
    """Names of the outputs that a request wants, None for all. Errors: InputError."""
    known = {spec.name for spec in schedule.outputs}
    if wanted is None:
        return frozenset(known)
    if isinstance(wanted, str) or not wanted:
        raise InputError(f"outputs are a list of names: {', '.join(sorted(known))}")
    problems = [_unknown("output", name, known, schedule.program) for name in map(str, wanted) if name not in known]
    if problems:
        raise InputError("; ".join(problems))
    return frozenset(wanted)


def check_turn(*, priority: object, deadline: object) -> None:
    """When a request is let in and until when it may take. Errors: InputError for what nothing can be ordered by."""
    if not isinstance(priority, int):
        raise InputError(f"priority is a whole number, not {priority!r}")
    if deadline is not None and (not isinstance(deadline, int | float) or math.isnan(deadline)):
        raise InputError(f"deadline is a number of seconds, not {deadline!r}")


def convert(spec: Input, value: Any) -> Value:
    """A Python value as the input's type; lists become tensors. Errors: ValueError, TypeError."""
    base = spec.type.base
    if base == "text":
        if not isinstance(value, str):
            raise TypeError(f"got {type(value).__name__}")
        if not is_utf8(value):
            raise ValueError("it is not valid UTF-8")
        return value
    if base == "scalar":
        return _scalar(value)
    if base in ("json", "record"):
        if not all(map(is_utf8, _texts(value))):
            raise ValueError("it has a text that is not valid UTF-8")
        return value
    if isinstance(value, str) or not isinstance(value, Tensor | list | tuple):
        raise TypeError(f"got {type(value).__name__}")
    if is_starred(spec.type):
        axes = spec.type.axes[1:]
        items = [value] if isinstance(value, Tensor) and value.ndim == len(axes) else value  # one item by itself
        return [_tensor(item, spec.type, axes) for item in items]
    return _tensor(value, spec.type, spec.type.axes)


def far_out(values: Mapping[str, Value]) -> str | None:
    """The first input whose numbers are so large that nothing learned can work on them; None where none is."""
    for name, value in values.items():
        for item in value if isinstance(value, list) else [value]:
            if isinstance(item, Tensor) and item.is_floating_point() and item.numel():
                most = float(item.abs().max())
                if most > FAR_OUT:
                    return f"input {name} has values up to {most:.3g}, for which no model was made"
    return None


def is_utf8(text: str) -> bool:
    """Whether files and models could take it: half of a surrogate pair is no character."""
    return text.isascii() or not any("\ud800" <= character <= "\udfff" for character in text)


def _texts(value: Any) -> Iterator[str]:
    """All texts of a JSON value, keys among them."""
    line = [value]
    while line:
        each = line.pop()
        if isinstance(each, str):
            yield each
        elif isinstance(each, Mapping):
            line += [*each, *each.values()]
        elif isinstance(each, list | tuple):
            line += each


def _scalar(value: Any) -> Any:
    """A number that float32 can hold, or a truth value. Errors: ValueError, TypeError."""
    if not isinstance(value, int | float):
        raise TypeError(f"got {type(value).__name__}")
    if not abs(value) <= torch.finfo(torch.float32).max:
        raise ValueError("it is not a finite number")
    return value


def _tensor(value: Any, kind: PortType, axes: Sequence[str]) -> Tensor:
    tensor = _as_tensor(value, dtype_of(kind))
    if tensor.ndim != len(axes):
        raise ValueError(f"got shape {list(tensor.shape)}")
    for axis, size in zip(axes, tensor.shape, strict=True):
        if axis.isdigit() and int(axis) != size:
            raise ValueError(f"got shape {list(tensor.shape)}")
    if tensor.is_floating_point() and not bool(tensor.isfinite().all()):
        raise ValueError("it has values that are infinite or no numbers")
    if kind.base in IDS and tensor.numel():
        least, most = int(tensor.min()), int(tensor.max())
        if least < 0 or (kind.vocabulary is not None and most >= kind.vocabulary):
            outside = least if least < 0 else most
            top = "" if kind.vocabulary is None else f" to {kind.vocabulary - 1}"
            raise ValueError(f"it has id {outside}, and ids are 0{top or ' or more'}")
    return tensor


def _as_tensor(value: Any, dtype: torch.dtype) -> Tensor:
    """A tensor of that dtype, of numbers which it can hold as they are. Errors: ValueError, TypeError."""
    try:
        found = torch.as_tensor(value, dtype=dtype if dtype.is_floating_point else None)
        if found.is_floating_point() and not dtype.is_floating_point and bool((found % 1 != 0).any()):
            raise ValueError("it has numbers that are not whole")
        return found.to(dtype)
    except (RuntimeError, OverflowError) as error:
        raise ValueError(" ".join(str(error).split())) from None


def _unknown(what: str, name: str, known: Iterable[str], program: str) -> str:
    names = sorted(known)
    near = difflib.get_close_matches(name, names, n=1)
    hint = f"did you mean {near[0]}?" if near else f"it has {', '.join(names) or 'none'}"
    return f"{program} has no {what} {name}; {hint}"
