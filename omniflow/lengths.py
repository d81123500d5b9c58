"""Holds the lengths of a request's inputs against each other and against what the program lets in.

The compiler proved the graph for inputs that agree, and planned it for the most that may come.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from fractions import Fraction

from torch import Tensor

from omniflow.values import Value, is_starred
from omniflow_compiler.schedule import Input, PortType, Schedule
from omniflow_compiler.sizes import Size, parse_size


def length_problems(schedule: Schedule, values: Mapping[str, Value]) -> list[str]:
    """What does not agree, a line each: `input b has 4 elements along T, input a has 3`."""
    found: list[str] = []
    known: dict[str, tuple[Fraction, str]] = {}
    sizes = [size for spec in schedule.inputs if spec.name in values for size in _sizes(spec, values[spec.name])]
    for name, size, length in sorted(sizes, key=lambda entry: (entry[1].symbol is None, len(entry[1].terms))):
        open_symbols = [symbol for symbol in size.symbols if symbol not in known]
        if len(open_symbols) > 1:
            continue
        for symbol in open_symbols:
            factor = dict(size.terms)[symbol]
            known[symbol] = ((length - _value(size, known, without=symbol)) / factor, name)
        expected = _value(size, known)
        if expected != length or any(known[symbol][0].denominator != 1 for symbol in size.symbols):
            others = sorted({known[symbol][1] for symbol in size.symbols} - {name})
            because = f", which does not fit input {others[0]}" if others else ""
            found.append(f"input {name} has {length} elements along {size.short}{because}")
    return found


def limit_problems(spec: Input, value: Value) -> list[str]:
    """What is more than the program lets in, a line for the first of each axis; of a number also what is less."""
    if spec.least is not None or spec.most is not None:
        return _range_problems(spec, value)
    if not spec.limits:
        return []
    starred = is_starred(spec.type)
    items = value if starred else [value]
    counts = [(0, len(items))] if starred else []
    counts += [(axis + starred, size) for item in items for axis, size in enumerate(item.shape)]
    over: dict[int, int] = {}
    for axis, count in counts:
        if 0 < spec.limits[axis] < count:
            over.setdefault(axis, count)
    return [_over(spec, axis, count) for axis, count in over.items()]


def _range_problems(spec: Input, value: Value) -> list[str]:
    """`input height is 16384, the most allowed is 2048`."""
    if spec.least is not None and value < spec.least:
        return [f"input {spec.name} is {value}, the least allowed is {spec.least:.15g}; {spec.place} declares it"]
    if spec.most is not None and value > spec.most:
        return [f"input {spec.name} is {value}, the most allowed is {spec.most:.15g}; {spec.place} declares it"]
    return []


def _over(spec: Input, axis: int, count: int) -> str:
    """`input audio has 480000 elements along S (30.00 s), at most 160000 (10.00 s)`."""
    had = in_elements(spec.type, axis, count, spec.limits[axis])
    return f"input {spec.name} has {had}; {spec.place} declares it"


def in_elements(kind: PortType, axis: int, count: int, most: int) -> str:
    """`480000 elements along S (30.00 s), at most 160000 (10.00 s)`."""
    name, rate = parse_size(kind.axes[axis].removesuffix("*")).short, kind.rate_hz
    is_time = rate is not None and axis == is_starred(kind)
    seconds = [f" ({number / rate:.2f} s)" if rate and is_time else "" for number in (count, most)]
    return f"{count} elements along {name}{seconds[0]}, at most {most}{seconds[1]}"


def _sizes(spec: Input, value: Value) -> Iterator[tuple[str, Size, int]]:
    """The input's name with each axis that all of it shares, and how long it is."""
    if is_starred(spec.type):
        if isinstance(value, list):
            yield spec.name, parse_size(spec.type.axes[0].removesuffix("*")), len(value)
    elif isinstance(value, Tensor):
        for axis, length in zip(spec.type.axes, value.shape, strict=True):
            yield spec.name, parse_size(axis), length


def _value(size: Size, known: Mapping[str, tuple[Fraction, str]], without: str = "") -> Fraction:
    return size.constant + sum((f * known[s][0] for s, f in size.terms if s != without), Fraction(0))
