"""A request's own parameters, `node.attribute`: named and typed as the attribute is declared, before anything runs."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping
from typing import Any

from omniflow.errors import InputError
from omniflow.inputs import is_utf8
from omniflow.promises import broken_promise
from omniflow.vocabulary import declared, outside
from omniflow_compiler.attributes import convert_attribute
from omniflow_compiler.expressions import Expression, ExpressionError
from omniflow_compiler.library.library import BUILT_IN
from omniflow_compiler.library.signature import Attribute
from omniflow_compiler.schedule import Node, Schedule
from omniflow_compiler.suggest import nearest

SEED = Attribute(name="seed", type="int", minimum=0, doc="Seed of this node's draws, in place of the request's.")
MOST = 1 << 31  # tokens
TEXTS = frozenset({"text", "bytes"})  # types that are written as they are


def check_params(
    schedule: Schedule, given: Mapping[str, Any], vocabularies: Mapping[str, int] | None = None
) -> dict[str, dict[str, Any]]:
    """`node.attribute` (`node.loop.attribute` of an inner loop, `node.seed`) to value, as attributes by node.

    vocabularies: of the loaded experts, by component; by default those that are declared. Errors: InputError listing
    every name that is not there, every value that does not fit its declaration, every id outside its expert's
    vocabulary, and every list that lets ids through which the program was compiled to never see.
    """
    if not isinstance(given, Mapping):
        raise InputError(f"params are a mapping of node.attribute to values: got {type(given).__name__}")
    if not given:
        return {}
    known = known_params(schedule)
    fixed = {f"{node.id}.{name}" for node in schedule.nodes for name, attribute in _all(node) if attribute.is_fixed}
    sizes = declared(schedule) if vocabularies is None else vocabularies
    found: dict[str, dict[str, Any]] = {}
    problems = []
    for key, value in given.items():
        if key in fixed:
            problems.append(f"param {key} is a part of what the program is; only its spec can change it")
            continue
        if key not in known:
            problems.append(f"{schedule.program} has no param {key}; {_hint(str(key), known)}")
            continue
        node, name, attribute = known[key]
        try:
            found.setdefault(node.id, {})[name] = fitting = _fitting(node, attribute, value)
        except ValueError as error:
            problems.append(f"param {key} {error} ({node.place} has the node)")
            continue
        expert = _expert_of(node, name)
        broken = outside(attribute.name, fitting, expert, sizes.get(expert)) if node.kind == "loop" else None
        broken = broken or _lifted(node, name, attribute, fitting) or broken_promise(schedule, node, name, fitting)
        if broken is not None:
            problems.append(f"param {key} {broken}")
    if problems:
        raise InputError("; ".join(problems))
    return found


def _expert_of(node: Node, name: str) -> str:
    """The component that a node's attribute is about: of an inner loop, that loop's."""
    is_inner = node.inner is not None and name.startswith(f"{node.inner.loop}.")
    return (node.inner.expert if is_inner and node.inner is not None else node.expert) or ""


def _lifted(node: Node, name: str, attribute: Attribute, value: Any) -> str | None:
    """What is wrong with letting ids through that the program keeps out for whoever reads them."""
    attributes = node.attributes if name in node.attributes or node.inner is None else node.inner.attributes
    most = attributes.get(attribute.name)
    if attribute.name != "suppress_from" or not most or (isinstance(value, int) and 0 < value <= most):
        return None
    return f"has to be from 1 to {most}: what reads its ids knows no others"


def known_params(schedule: Schedule) -> dict[str, tuple[Node, str, Attribute]]:
    """What a request may set: by `node.attribute`, the node, the attribute's name there and its declaration."""
    every = ((node, name, attribute) for node in schedule.nodes for name, attribute in _all(node))
    return {f"{node.id}.{name}": (node, name, found) for node, name, found in every if not found.is_fixed}


def read_params(schedule: Schedule, written: Mapping[str, str]) -> dict[str, Any]:
    """Values as they stand on a command line: JSON, or text where the attribute is one; unknown names stay.

    Errors: InputError as `check_params`.
    """
    types = {key: attribute.type for key, (_, _, attribute) in known_params(schedule).items()}
    values = {key: text if types.get(key) in TEXTS else _json(text) for key, text in written.items()}
    check_params(schedule, values)
    return values


def _json(text: str) -> Any:
    try:
        return json.loads(text)
    except json.JSONDecodeError:
        return text


def _all(node: Node) -> Iterator[tuple[str, Attribute]]:
    declared = _declared(node.kind, node.name)
    yield from ((name, declared[name]) for name in node.attributes if name in declared)
    if SEED.name not in node.attributes:
        yield SEED.name, SEED
    if node.inner is not None:
        inside = _declared("loop", node.inner.kind)
        yield from ((f"{node.inner.loop}.{name}", inside[name]) for name in node.inner.attributes if name in inside)


def _declared(kind: str, name: str) -> dict[str, Attribute]:
    signatures: Mapping[str, Any] = BUILT_IN.ops if kind == "op" else BUILT_IN.loops
    return {attribute.name: attribute for attribute in signatures[name].attributes} if name in signatures else {}


def _fitting(node: Node, attribute: Attribute, value: Any) -> Any:
    """The value as the attribute's type. Errors: ValueError."""
    value = list(value) if isinstance(value, tuple | set | frozenset) else value
    numbers = value if isinstance(value, list) else [value]
    if any(isinstance(number, int | float) and not _is_finite(number) for number in numbers):
        raise ValueError("is not a finite number")
    if not all(is_utf8(text) for text in numbers if isinstance(text, str)):
        raise ValueError("is not valid UTF-8")
    if attribute.type == "expression":
        if isinstance(value, int) and not 0 <= value <= MOST:
            raise ValueError(f"is {value}, the {'least allowed is 0' if value < 0 else f'most allowed is {MOST}'}")
        if isinstance(value, str):
            _check_names(node, value)
    return convert_attribute(attribute, value)


def _is_finite(number: float) -> bool:
    try:
        return math.isfinite(number)
    except OverflowError:  # an integer larger than all floats
        return False


def _check_names(node: Node, text: str) -> None:
    """An expression can only read the lengths that the schedule provides for. Errors: ValueError."""
    try:
        Expression(text).evaluate(dict.fromkeys(node.lengths, 1))
    except ExpressionError as error:
        raise ValueError(f"cannot be read: {error}") from None


def _hint(key: str, known: Mapping[str, object]) -> str:
    node, _, name = key.rpartition(".")
    own = sorted(each.removeprefix(f"{node}.") for each in known if node and each.startswith(f"{node}."))
    near = [f"{node}.{each}" for each in nearest(name, own, most=1) or [each for each in own if each.startswith(name)]]
    near = near or ([] if own else nearest(key, known, most=1))
    if near:
        return f"did you mean `{near[0]}`?"
    return f"it has {', '.join(f'`{node}.{each}`' for each in own) or ', '.join(f'`{each}`' for each in sorted(known))}"
