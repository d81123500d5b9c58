"""Sizes and rates of a whole graph as one system of linear equations, solved as they come, in any order.

A symbol is one of four things, and the first kind in an equation is solved for: a variable of a node's signature
(`mel.T`), a size a program input leaves open (`inputs.x.D`), a size only a checkpoint knows (`?vae.C`), or a length
that a request decides while it runs (`think.T`), which nothing can be solved for.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Generic, TypeVar

from omniflow_compiler.sizes import Size
from omniflow_compiler.types import Rate

C = TypeVar("C")  # what an equation comes from
_VARIABLE, _INPUT, _CHECKPOINT, _LENGTH = range(4)


@dataclass(slots=True)
class Equations(Generic[C]):
    """What is known so far. `causes` says, for each symbol that was solved for, which equation settled it."""

    sizes: dict[str, Size] = field(default_factory=dict)
    rates: dict[str, Rate] = field(default_factory=dict)
    lengths: set[str] = field(default_factory=set)  # decided by a request
    causes: dict[str, C] = field(default_factory=dict)

    def resolve(self, size: Size) -> Size:
        """The size with all that is known put in."""
        alone = size.symbol
        if alone is not None:
            return self._settled(alone) if alone in self.sizes else size
        known = {symbol: self._settled(symbol) for symbol in size.symbols if symbol in self.sizes}
        return size.substitute(known) if known else size

    def _settled(self, symbol: str) -> Size:
        """The resolved value of a solved symbol, kept so that long chains are walked once."""
        stack = [symbol]
        while True:
            value = self.sizes[stack[-1]]
            below = [other for other in value.symbols if other in self.sizes]
            deeper = [other for other in below if any(third in self.sizes for third in self.sizes[other].symbols)]
            if deeper:
                stack.append(deeper[0])
                continue
            if below:
                value = self.sizes[stack[-1]] = value.substitute(self.sizes)
            stack.pop()
            if not stack:
                return value

    def equate(self, left: Size, right: Size, cause: C) -> str:
        """Adds `left = right`. The answer is empty, or what is wrong: `size`, `alignment` or `fraction`."""
        left, right = self.resolve(left), self.resolve(right)
        if left == right:
            return ""
        alone = left.symbol
        if alone is not None and self._kind(alone) == _VARIABLE and alone not in right.symbols:
            return self._settle(alone, right, cause)
        difference = left - right
        symbol = self._solvable(difference)
        if symbol is None:
            return "size" if left.number is not None or right.number is not None else "alignment"
        factor = dict(difference.terms)[symbol]
        return self._settle(symbol, Size.of(symbol) - difference.times(1 / factor), cause)

    def _settle(self, symbol: str, value: Size, cause: C) -> str:
        if value.number is not None and not is_count(value):
            return "fraction"
        self.sizes[symbol] = value
        self.causes[symbol] = cause
        return ""

    def _solvable(self, difference: Size) -> str | None:
        ranked = sorted((self._kind(symbol), symbol) for symbol in difference.symbols)
        if not ranked or (ranked[0][0] != _VARIABLE and ranked[-1][0] == _LENGTH):
            return None
        return ranked[0][1]

    def _kind(self, symbol: str) -> int:
        if symbol in self.lengths:
            return _LENGTH
        if symbol.startswith("?"):
            return _CHECKPOINT
        return _INPUT if symbol.startswith("inputs.") else _VARIABLE

    def broken(self) -> list[tuple[str, Size, C]]:
        """Solved symbols that turned out to be no whole number once everything was known."""
        found = []
        for symbol in self.sizes:
            value = self._settled(symbol)
            if value.number is not None and not is_count(value):
                found.append((symbol, value, self.causes[symbol]))
        return found

    def resolve_rate(self, rate: Rate) -> Rate:
        """The rate with what is known put in."""
        while rate.variable is not None and rate.variable in self.rates:
            known = self.rates[rate.variable]
            rate = known if rate.factor == 1 else Rate(rate.factor * known.factor, known.variable)
        return rate

    def equate_rates(self, left: Rate, right: Rate, cause: C) -> bool:
        """Adds `left = right`; false when they cannot be equal."""
        left, right = self.resolve_rate(left), self.resolve_rate(right)
        for mine, other in ((left, right), (right, left)):
            if mine.variable is not None and mine.variable != other.variable:
                self.rates[mine.variable] = (
                    other if mine.factor == 1 else Rate(other.factor / mine.factor, other.variable)
                )
                self.causes[f"@{mine.variable}"] = cause
                return True
        return left.factor == right.factor


def is_count(size: Size) -> bool:
    """Whether a size without symbols is a whole number of elements."""
    return size.number is not None and size.number >= 0 and size.number.denominator == 1
