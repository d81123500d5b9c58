"""Checks written attributes against their declarations and fills in defaults."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from omniflow_compiler import codes
from omniflow_compiler.diagnostics import Report
from omniflow_compiler.expressions import Expression, ExpressionError
from omniflow_compiler.library.signature import Attribute
from omniflow_compiler.load.scalars import MAX_NUMBER
from omniflow_compiler.load.tree import Unread
from omniflow_compiler.quantities import parse_bytes
from omniflow_compiler.source import Span
from omniflow_compiler.spec import Attribute as Written
from omniflow_compiler.suggest import did_you_mean, nearest
from omniflow_compiler.validate import unknown_key

MAX_ENTRIES = 10_000


def check_attributes(
    declared: Sequence[Attribute],
    written: Mapping[str, Written],
    owner: str,
    at: Span,
    report: Report,
    own: Sequence[str] = (),
) -> dict[str, object]:
    """Values of all declared attributes; a faulty one is reported and gets its default.

    own: further keys that could be written there, for the nearest name of an unknown one.
    """
    unknown = [name for name in written if all(name != attribute.name for attribute in declared)]
    free = [attribute.name for attribute in declared if attribute.name not in written] + [*own]
    for name in unknown:
        unknown_key(report, name, written[name].key_span, free, owner)
    values: dict[str, object] = {}
    for attribute in declared:
        given = written.get(attribute.name)
        values[attribute.name] = attribute.default
        if given is not None and not _is_unset(attribute, given.value):
            values[attribute.name] = _checked(attribute, given, owner, report)
        elif given is None and attribute.required and not nearest(attribute.name, unknown):
            report.add(codes.MISSING_KEY, at, f"{owner} has no `{attribute.name}`", help=[_doc(attribute)])
    return values


def convert_attribute(attribute: Attribute, value: object) -> object:
    """A value that comes after compilation as the attribute's type. Errors: ValueError saying what does not fit."""
    problem = _problem(attribute, value)
    if problem is not None:
        raise ValueError(problem[1].replace("`", ""))
    return _value(attribute, value)


def _is_unset(attribute: Attribute, value: object) -> bool:
    """Whether it could not be read or is a param without a value; that was reported where it is written."""
    if isinstance(value, list):
        return any(isinstance(item, Unread) for item in value)
    return isinstance(value, Unread) or (attribute.type != "text" and isinstance(value, str) and value.startswith("$"))


def _checked(attribute: Attribute, given: Written, owner: str, report: Report) -> object:
    problem = _problem(attribute, given.value)
    if problem is None:
        return _value(attribute, given.value)
    code, message, help = problem
    report.add(code, given.span, f"`{attribute.name}` of {owner} {message}", help=help)
    return attribute.default


def _doc(attribute: Attribute) -> str:
    return f"`{attribute.name}`: {attribute.doc[0].lower()}{attribute.doc[1:].rstrip('.')}"


def _shown(value: object) -> str:
    """A written value, for messages."""
    if isinstance(value, list | dict) or value is None:
        return "a list" if isinstance(value, list) else "empty" if value is None else "a mapping"
    if isinstance(value, bool):
        return f"the truth value `{str(value).lower()}`"
    return f"the {'text' if isinstance(value, str) else 'number'} `{str(value)[:60]}`"


_NAMES = {
    "int": "a whole number", "float": "a number", "bool": "true or false", "text": "text", "ids": "a list of ids",
    "bytes": "a size such as `256 MiB`", "expression": "a number or an expression", "texts": "a list of texts",
    "numbers": "a list of numbers",
}  # fmt: skip

_Problem = tuple[codes.Code, str, list[str]]


def _problem(attribute: Attribute, value: object) -> _Problem | None:
    if attribute.type == "ids" and isinstance(value, list):
        odd = next((item for item in value if not _is_int(item) or item < 0), None)
        if odd is not None:
            return codes.WRONG_TYPE, f"has {_shown(odd)}, which is no id", [_doc(attribute)]
    if not _has_type(attribute, value):
        return codes.WRONG_TYPE, f"is {_shown(value)}, expected {_NAMES[attribute.type]}", [_doc(attribute)]
    if attribute.choices and value not in attribute.choices:
        return codes.BAD_VALUE, f"cannot be `{value}`", did_you_mean(str(value), attribute.choices, "value")
    if attribute.type == "expression" and isinstance(value, str):
        try:
            Expression(value)
        except ExpressionError as error:
            return codes.BAD_EXPRESSION, f"cannot be read: {error}", [_doc(attribute)]
    numbers = value if isinstance(value, list) else [value]
    for number in numbers:
        if isinstance(number, int | float) and not isinstance(number, bool):
            if attribute.minimum is not None and number < attribute.minimum:
                return codes.BAD_VALUE, f"is {number}, the least allowed is {attribute.minimum:g}", []
            if attribute.maximum is not None and number > attribute.maximum:
                return codes.BAD_VALUE, f"is {number}, the most allowed is {attribute.maximum:g}", []
    return None


def _has_type(attribute: Attribute, value: object) -> bool:
    match attribute.type:
        case "int":
            return _is_int(value)
        case "float":
            return _is_number(value)
        case "bool":
            return isinstance(value, bool)
        case "text":
            return isinstance(value, str)
        case "ids":
            return _is_list(value) and all(_is_int(v) and v >= 0 for v in value)  # type: ignore[attr-defined]
        case "bytes":
            return isinstance(value, int | str) and not isinstance(value, bool) and parse_bytes(value) is not None
        case "expression":
            return _is_int(value) or isinstance(value, str)
        case "texts":
            return _is_list(value) and all(isinstance(v, str) for v in value)  # type: ignore[attr-defined]
        case "numbers":
            return _is_list(value) and all(_is_number(v) for v in value)  # type: ignore[attr-defined]


def _is_int(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and abs(value) <= MAX_NUMBER


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _is_list(value: object) -> bool:
    return isinstance(value, list) and len(value) <= MAX_ENTRIES


def _value(attribute: Attribute, value: object) -> object:
    if attribute.type == "float" and isinstance(value, int):
        return float(value)
    if attribute.type == "bytes" and isinstance(value, int | str):
        return parse_bytes(value)
    return tuple(value) if isinstance(value, list) else value
