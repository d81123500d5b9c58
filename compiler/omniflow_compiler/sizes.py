"""Sizes of axes: affine in symbols (`64`, `T`, `H/8`, `2*T + 1`), read, printed and computed with exactly."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fractions import Fraction

_ONE, _ZERO = Fraction(1), Fraction(0)
# A symbol of a node inside a graph has the graph's node before it: `talk/rows.T2`.
_TOKEN = re.compile(
    r"\s*(?:([0-9]+)|((?:[A-Za-z_?]\w*/(?=[A-Za-z_][\w/]*\.))*[A-Za-z_?][A-Za-z0-9_.]*)|([-+*/()]))", re.ASCII
)


class TypeSyntaxError(Exception):
    """A type or a size that cannot be read; the message says what is wrong with it."""


@dataclass(frozen=True, slots=True)
class Size:
    """An affine size: sum of factor * symbol, plus a constant. `terms` are sorted and have no zero factor."""

    terms: tuple[tuple[str, Fraction], ...] = ()
    constant: Fraction = _ZERO

    @staticmethod
    def of(value: int | Fraction | str) -> Size:
        if isinstance(value, str):
            return Size(((value, _ONE),))
        return Size((), Fraction(value))

    def __add__(self, other: Size) -> Size:
        terms = dict(self.terms)
        for symbol, factor in other.terms:
            terms[symbol] = terms.get(symbol, _ZERO) + factor
        kept = tuple(sorted((s, f) for s, f in terms.items() if f))
        return Size(kept, self.constant + other.constant)

    def times(self, factor: Fraction) -> Size:
        return Size(tuple((s, f * factor) for s, f in self.terms) if factor else (), self.constant * factor)

    def __sub__(self, other: Size) -> Size:
        return self + other.times(-_ONE)

    @property
    def number(self) -> Fraction | None:
        return None if self.terms else self.constant

    @property
    def symbol(self) -> str | None:
        """The symbol that the size is, when it is nothing else."""
        if len(self.terms) != 1:
            return None
        symbol, factor = self.terms[0]
        is_alone = (factor is _ONE or factor == 1) and (self.constant is _ZERO or not self.constant)
        return symbol if is_alone else None

    @property
    def symbols(self) -> tuple[str, ...]:
        return tuple(symbol for symbol, _ in self.terms)

    def substitute(self, known: Mapping[str, Size]) -> Size:
        alone = self.symbol
        if alone is not None:
            return known.get(alone, self)
        result = Size((), self.constant)
        for symbol, factor in self.terms:
            result = result + known.get(symbol, Size.of(symbol)).times(factor)
        return result

    def evaluate(self, lengths: Callable[[str], Fraction]) -> Fraction:
        """The number, given every symbol's length."""
        return self.constant + sum((factor * lengths(symbol) for symbol, factor in self.terms), _ZERO)

    @property
    def short(self) -> str:
        """The size with symbols named without their owner: `T` for `think.T`."""
        renamed = tuple((symbol.rpartition(".")[2].lstrip("?"), factor) for symbol, factor in self.terms)
        return str(Size(renamed, self.constant))

    def __str__(self) -> str:
        parts = []
        for symbol, factor in self.terms:
            shown = symbol.lstrip("?")
            if factor.numerator != 1:
                shown = f"{factor.numerator}*{shown}"
            if factor.denominator != 1:
                shown = f"{shown}/{factor.denominator}"
            parts.append(shown)
        if self.constant or not parts:
            parts.append(str(self.constant))
        return " + ".join(parts).replace("+ -", "- ")


def parse_size(text: str) -> Size:
    """Reads an affine size such as `64`, `T`, `H/8`, `2*T + 1`. Errors: TypeSyntaxError."""
    tokens, position = [], 0
    text = text.strip()
    while position < len(text):
        match = _TOKEN.match(text, position)
        if match is None:
            raise TypeSyntaxError(f"`{text}` is no size")
        tokens.append(match[1] or match[2] or match[3])
        position = match.end()
    size, rest = _sum(tokens, text)
    if rest:
        raise TypeSyntaxError(f"`{text}` is no size")
    return size


def _sum(tokens: list[str], text: str) -> tuple[Size, list[str]]:
    total, tokens = _product(tokens, text)
    while tokens and tokens[0] in "+-":
        sign, (term, tokens) = tokens[0], _product(tokens[1:], text)
        total = total + term if sign == "+" else total - term
    return total, tokens


def _product(tokens: list[str], text: str) -> tuple[Size, list[str]]:
    total, tokens = _factor(tokens, text)
    while tokens and tokens[0] in "*/":
        sign, (factor, tokens) = tokens[0], _factor(tokens[1:], text)
        if sign == "*" and total.number is not None:
            total, factor = factor, total
        number = factor.number
        if number is None or (sign == "/" and number == 0):
            raise TypeSyntaxError(f"`{text}` is not affine: only numbers multiply and divide")
        total = total.times(number if sign == "*" else 1 / number)
    return total, tokens


def _factor(tokens: list[str], text: str) -> tuple[Size, list[str]]:
    if not tokens or tokens[0] in "+-*/()":
        raise TypeSyntaxError(f"`{text}` is no size")
    head = tokens[0]
    return Size.of(int(head) if head.isdigit() else head), tokens[1:]
