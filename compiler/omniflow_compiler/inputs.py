"""What a program's input says: its type, a default of that type, and limits that mean something for it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from omniflow_compiler import codes
from omniflow_compiler.diagnostics import Label, Report
from omniflow_compiler.spec import Bound, InputSpec
from omniflow_compiler.suggest import did_you_mean
from omniflow_compiler.types import BASES, DTYPES, UNKNOWN, Type, TypeSyntaxError, parse_type
from omniflow_compiler.validate import unknown_key

_SYNONYMS = {
    "string": "text", "str": "text", "int": "scalar", "integer": "scalar", "float": "scalar", "number": "scalar",
    "boolean": "scalar", "dict": "json", "object": "json", "list": "json", "tensor": "f32", "float32": "f32",
    "float16": "f16", "bfloat16": "bf16", "int64": "i64", "int32": "i32", "token": "tokens", "frames": "f32",
}  # fmt: skip
_DEFAULTS: Mapping[str, tuple[type, ...]] = {
    "text": (str,),
    "scalar": (int, float, bool),
    "json": (str, int, float, bool),
}


def input_type(spec: InputSpec, report: Report) -> Type:
    """The type of a program input; unknown when it cannot be read. What does not go with it is reported."""
    written = spec.type
    if not written.text:
        return UNKNOWN  # the schema has said so
    try:
        type = parse_type(written.text)
    except TypeSyntaxError as error:
        message = f"`{written.text[:60]}` is no type: {error}"
        report.add(codes.BAD_TYPE, written.span, message, help=_known_bases(written.text))
        return UNKNOWN
    is_open = type.base.startswith("?") or type.dtype == "act" or type.rest
    if is_open or (type.rate is not None and type.rate.variable is not None):
        help = ["name the base, the dtype, every axis, and rates in hertz: `f32[T, 80] @ 100 Hz`"]
        report.add(codes.BAD_TYPE, written.span, f"`{written.text[:60]}` leaves open what an input must say", help=help)
        return UNKNOWN
    _check_default(spec, type, report)
    _check_limits(spec, type, report)
    _check_bounds(spec, type, report)
    return type


def _known_bases(text: str) -> list[str]:
    word = re.match(r"\w*", text)
    name, names = word[0] if word else "", [*BASES, *DTYPES]
    if name in names or not name:
        return ["a type is a base with axes: `text`, `tokens[T]`, `f32[T, 80] @ 100 Hz`"]
    if name.lower() in _SYNONYMS:
        return [f"did you mean `{_SYNONYMS[name.lower()]}`?"]
    return did_you_mean(name, names, "base")


def _check_default(spec: InputSpec, type: Type, report: Report) -> None:
    fitting = _DEFAULTS.get(type.base, ())
    if spec.default_span is None or not spec.has_default or isinstance(spec.default, fitting):
        return
    message, help = f"the default of input `{spec.name.text}` is no {type.base}", ["quote it to make it text"]
    if not fitting:
        message = f"input `{spec.name.text}` is {type.short}, for which a spec can give no default"
    report.add(codes.WRONG_TYPE, spec.default_span, message, help=help if type.base == "text" else [])


def _check_limits(spec: InputSpec, type: Type, report: Report) -> None:
    axes = [axis.name for axis in type.axes if axis.size.symbol is not None]
    for name, limit in spec.limits.items():
        if name not in axes:
            what = f"the limits of input `{spec.name.text}`, which is {type.short}"
            unknown_key(report, name, limit.axis.span, [axis for axis in axes if axis not in spec.limits], what)


def _check_bounds(spec: InputSpec, type: Type, report: Report) -> None:
    """`min` and `max` are of numbers and leave some; the default is one of these."""
    if type.base != "scalar":
        for key, bound in _bounds(spec):
            message = f"input `{spec.name.text}` is {type.short}, which is no number and has no `{key}`"
            help = ["write `limits: {AXIS: ...}` for the most elements along an axis"] if type.axes else []
            report.add(codes.BAD_VALUE, bound.span, message, help=help)
    elif spec.least is not None and spec.most is not None and spec.least.number > spec.most.number:
        labels = [Label(span=spec.least.span, text="`min` is above it")]
        message = f"`max` is {spec.most.number}, `min` is {spec.least.number}"
        report.add(codes.BAD_VALUE, spec.most.span, message, labels=labels)
    else:
        check_default_within(spec, spec, report)


def _bounds(spec: InputSpec) -> Iterator[tuple[str, Bound]]:
    if spec.least is not None:
        yield "min", spec.least
    if spec.most is not None:
        yield "max", spec.most


def check_default_within(spec: InputSpec, declared: InputSpec, report: Report) -> None:
    """Reports a default that another input, which it is handed on to, or its own, does not let in."""
    value = spec.default
    if spec.default_span is None or not isinstance(value, int | float):
        return
    for key, bound in _bounds(declared):
        if value < bound.number if key == "min" else value > bound.number:
            allowed = f"the {'least' if key == 'min' else 'most'} allowed is {bound.number}"
            message = f"the default of input `{spec.name.text}` is {value}, {allowed}"
            labels = [Label(span=bound.span, text="declared here")]
            report.add(codes.BAD_VALUE, spec.default_span, message, labels=labels)
