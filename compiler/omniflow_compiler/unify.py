"""Makes the ports of one node equal to what arrives at them, and says what leaves it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import NamedTuple

from omniflow_compiler.equations import Equations, is_count
from omniflow_compiler.graph import Edge, Node
from omniflow_compiler.library.domains import mixed
from omniflow_compiler.library.signature import Port
from omniflow_compiler.quantities import show_rate
from omniflow_compiler.sizes import Size
from omniflow_compiler.types import ANY, UNKNOWN, Axis, Rate, Type, show_dtype


class Cause(NamedTuple):
    """An equation: what edge it came over, and which axis of the port's pattern it was about (-1: the rate)."""

    edge: Edge
    axis: int


@dataclass(frozen=True, slots=True)
class Mismatch:
    """Why what arrives does not fit: `kind` names the diagnostic, `axis` is the axis of the port's pattern."""

    kind: str  # base dtype axes size fraction alignment vocabulary rate items
    expected: str
    found: str
    axis: int = -1


@dataclass(slots=True)
class Frame:
    """What the names of one node's signature mean. `captured` is what its variable bases stand for, and from where."""

    node: Node
    owner: str
    names: Mapping[str, Size]
    rates: Mapping[str, Fraction]
    captured: dict[str, Type] = field(default_factory=dict)
    sources: dict[str, Edge] = field(default_factory=dict)

    def size(self, size: Size, suffix: str = "") -> Size:
        """A size of the signature in symbols of the graph; `suffix` sets one part of a variadic port apart."""
        if not size.terms:
            return size
        return size.substitute({name: self._symbol(name, suffix) for name in size.symbols})

    def _symbol(self, name: str, suffix: str) -> Size:
        known = self.names.get(name)
        return Size.of(f"{self.owner}.{name}{suffix}") if known is None else known

    def rate(self, rate: Rate) -> Rate:
        """A rate of the signature as one of the graph."""
        if rate.variable is None:
            return rate
        known = self.rates.get(rate.variable)
        return Rate(rate.factor, f"{self.owner}.{rate.variable}") if known is None else Rate(rate.factor * known)


def frame_of(node: Node) -> Frame:
    """A node's frame: its numbers by attribute and by size of its component."""
    names: dict[str, Size] = {}
    rates: dict[str, Fraction] = {}
    for name, value in node.attributes.items():
        if isinstance(value, int | float) and not isinstance(value, bool) and value >= 0:
            if isinstance(value, int):
                names[name] = Size.of(value)
            if value:
                rates[name] = Fraction(value)
    if node.component is not None:
        owner = node.component.spec.name.text
        for name in node.component.signature.sizes:
            known = node.component.sizes.get(name)
            names[name] = Size.of(f"?{owner}.{name}" if known is None else known)
    return Frame(node=node, owner=node.id, names=names, rates=rates)


def pattern_of(port: Port, node: Node) -> Type:
    """A port's pattern with the activation dtype of the node's component."""
    pattern = port.pattern
    if pattern.dtype == "act" and node.component is not None:
        return replace(pattern, dtype=node.component.spec.dtype)
    return pattern


@dataclass(slots=True)
class Unifier:
    """Matches and instantiates against one system of equations."""

    equations: Equations[Cause] = field(default_factory=Equations)
    bounds: list[tuple[Edge, Size, Size]] = field(default_factory=list)  # vocabularies known later: wanted, given

    def match(self, pattern: Type, actual: Type, frame: Frame, edge: Edge, suffix: str = "") -> list[Mismatch]:
        """Binds the pattern's variables; `suffix` names the variables of the leading axis of one variadic part."""
        found = self._match_base(pattern, actual, frame)
        if found:
            return found
        wanted = [
            Axis(axis.name, frame.size(axis.size, "" if i else suffix), axis.items)
            for i, axis in enumerate(pattern.axes)
        ]
        if pattern.rest and pattern.base in frame.captured:
            wanted += frame.captured[pattern.base].axes
        found = self._match_axes(pattern, wanted, actual, edge)
        self._capture(pattern, actual, frame, edge)
        found += self._match_vocabulary(pattern, actual, frame, edge)
        return found + self._match_rate(pattern, actual, frame, edge)

    def _match_base(self, pattern: Type, actual: Type, frame: Frame) -> list[Mismatch]:
        base, dtype = pattern.base, pattern.dtype
        if base.startswith(ANY):
            captured = frame.captured.get(base)
            if captured is None:
                return []
            base, dtype = captured.base, captured.dtype
        if base != actual.base and not (base == "tensor" and actual.base in _TENSORS):
            return [Mismatch("base", _expected(pattern, frame), actual.short)]
        if dtype and actual.dtype and dtype != actual.dtype:
            return [Mismatch("dtype", show_dtype(dtype), show_dtype(actual.dtype))]
        return []

    def _match_axes(self, pattern: Type, wanted: list[Axis], actual: Type, edge: Edge) -> list[Mismatch]:
        if pattern.is_items != actual.is_items:
            return [Mismatch("items", "a stream of items" if pattern.is_items else "one item", actual.short)]
        is_open = pattern.rest and len(wanted) == len(pattern.axes)
        if len(actual.axes) < len(wanted) or (len(actual.axes) > len(wanted) and not is_open):
            return [Mismatch("axes", _with_axes(pattern, wanted).short, actual.short)]
        found = []
        for i, (left, right) in enumerate(zip(wanted, actual.axes, strict=False)):
            kind = self.equations.equate(left.size, right.size, Cause(edge, i))
            if kind:
                sizes = (self.equations.resolve(left.size), self.equations.resolve(right.size))
                found.append(Mismatch(kind, str(sizes[0]), str(sizes[1]), i))
        return found

    def _capture(self, pattern: Type, actual: Type, frame: Frame, edge: Edge) -> None:
        if not pattern.base.startswith(ANY):
            return
        captured = frame.captured.get(pattern.base)
        if captured is None:
            rest = actual.axes[len(pattern.axes) :] if pattern.rest else ()
            frame.captured[pattern.base] = Type(
                actual.base, actual.dtype, rest, actual.rest, actual.vocabulary, None, actual.holes
            )
            frame.sources[pattern.base] = edge
        else:
            frame.captured[pattern.base] = mixed(captured, actual)

    def _match_vocabulary(self, pattern: Type, actual: Type, frame: Frame, edge: Edge) -> list[Mismatch]:
        if pattern.vocabulary is None or actual.vocabulary is None:
            return []
        wanted = self.equations.resolve(frame.size(pattern.vocabulary))
        given = self.equations.resolve(actual.vocabulary)
        if wanted.number is None or given.number is None:
            if wanted != given:
                self.bounds.append((edge, wanted, given))
            return []
        return [] if given.number <= wanted.number else [Mismatch("vocabulary", str(wanted), str(given))]

    def late_bounds(self) -> list[tuple[Edge, Mismatch]]:
        """Vocabularies that were not known when they met and do not fit."""
        found = []
        for edge, wanted, given in self.bounds:
            left, right = self.equations.resolve(wanted), self.equations.resolve(given)
            if left.number is not None and right.number is not None and right.number > left.number:
                found.append((edge, Mismatch("vocabulary", str(left), str(right))))
        return found

    def _match_rate(self, pattern: Type, actual: Type, frame: Frame, edge: Edge) -> list[Mismatch]:
        if pattern.rate is None or actual.rate is None:
            return []
        wanted = frame.rate(pattern.rate)
        if self.equations.equate_rates(wanted, actual.rate, Cause(edge, -1)):
            return []
        rates = (self.equations.resolve_rate(wanted), self.equations.resolve_rate(actual.rate))
        return [Mismatch("rate", show_rate(rates[0].factor), show_rate(rates[1].factor))]

    def instantiate(self, pattern: Type, frame: Frame, port: str) -> Type:
        """The type of an output. Sizes that nothing settles are lengths that this node decides when it runs."""
        base, dtype, rest, vocabulary, holes = (
            pattern.base,
            pattern.dtype,
            pattern.rest,
            pattern.vocabulary,
            frozenset[int](),
        )
        axes = [Axis(axis.name, self._leaving(axis.size, frame), axis.items) for axis in pattern.axes]
        if base.startswith(ANY):
            captured = frame.captured.get(base)
            if captured is None:
                return UNKNOWN
            base, dtype, rest = captured.base, captured.dtype, rest and captured.rest
            axes += captured.axes if pattern.rest else ()
            if vocabulary is None:
                vocabulary, holes = captured.vocabulary, captured.holes
            else:
                vocabulary = frame.size(vocabulary)
        elif vocabulary is not None:
            vocabulary = frame.size(vocabulary)
        if pattern.rate is not None:
            rate: Rate | None = self.equations.resolve_rate(frame.rate(pattern.rate))
        else:
            rate = Rate(Fraction(1), f"{frame.owner}/{port}") if axes else None
        vocabulary = None if vocabulary is None else self.equations.resolve(vocabulary)
        return Type(base, dtype, tuple(axes), rest, vocabulary, rate, holes)

    def _leaving(self, size: Size, frame: Frame) -> Size:
        leaving = self.equations.resolve(frame.size(size))
        own = f"{frame.owner}."
        self.equations.lengths.update(symbol for symbol in leaving.symbols if symbol.startswith(own))
        return leaving

    def settled(self, type: Type) -> Type:
        """The type with everything put in that became known after it was made; a rate that nothing told is none."""
        equations = self.equations
        sizes = [equations.resolve(axis.size) for axis in type.axes]
        rate = None if type.rate is None else equations.resolve_rate(type.rate)
        if rate is not None and rate.variable is not None:
            rate = None
        vocabulary = None if type.vocabulary is None else equations.resolve(type.vocabulary)
        is_same = all(size is axis.size for size, axis in zip(sizes, type.axes, strict=True))
        if is_same and rate is type.rate and vocabulary is type.vocabulary:
            return type
        axes = type.axes
        if not is_same:
            axes = tuple(Axis(axis.name, size, axis.items) for axis, size in zip(axes, sizes, strict=True))
        return Type(type.base, type.dtype, axes, type.rest, vocabulary, rate, type.holes)

    def has_odd_sizes(self, type: Type) -> bool:
        """Whether an axis is known to have no whole number of elements."""
        return any(not axis.size.terms and not is_count(axis.size) for axis in type.axes)


_TENSORS = ("tensor", "audio", "image", "video", "latent")


def _with_axes(pattern: Type, axes: list[Axis]) -> Type:
    return replace(pattern, axes=tuple(axes), rest=pattern.rest and len(axes) == len(pattern.axes), rate=None)


def _expected(pattern: Type, frame: Frame) -> str:
    captured = frame.captured.get(pattern.base)
    if captured is None:
        return pattern.short
    return replace(captured, axes=(*pattern.axes, *captured.axes)).short
