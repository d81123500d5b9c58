"""Types of ports: a base, a dtype, named axes with sizes, a vocabulary and a rate; reading, printing and matching.

Sizes are affine in symbols (`H/8`, `2*T + 1`). In a signature symbols are variables of that node; on an edge they are
lengths the request decides (`think.T`, rigid) or sizes a checkpoint decides (`?vae.C`, solved as soon as known).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from fractions import Fraction

from omniflow_compiler.quantities import parse_rate, show_rate

DTYPES = {
    "f32": "float32", "bf16": "bfloat16", "f16": "float16", "f64": "float64",
    "i64": "int64", "i32": "int32", "u8": "uint8", "bool": "bool",
}  # fmt: skip
DTYPE_BYTES = {
    "float64": 8, "float32": 4, "bfloat16": 2, "float16": 2, "int64": 8, "int32": 4, "uint8": 1, "bool": 1,
}  # fmt: skip
_SHORT = {long: short for short, long in DTYPES.items()}
BASES: Mapping[str, str | None] = {
    "text": None, "tokens": "int64", "codes": "int64", "latent": "float32", "audio": "float32", "image": "float32",
    "video": "float32", "kv": None, "scalar": None, "json": None, "record": None,
}  # fmt: skip
ANY = "?"  # a base variable in signatures: `?a[T, ...]`


class TypeSyntaxError(Exception):
    """A type that cannot be read; the message says what is wrong with it."""


@dataclass(frozen=True, slots=True)
class Size:
    """An affine size: sum of factor * symbol, plus a constant."""

    terms: tuple[tuple[str, Fraction], ...] = ()
    constant: Fraction = Fraction(0)

    @staticmethod
    def of(value: int | Fraction | str) -> Size:
        if isinstance(value, str):
            return Size(((value, Fraction(1)),))
        return Size((), Fraction(value))

    def __add__(self, other: Size) -> Size:
        terms = dict(self.terms)
        for symbol, factor in other.terms:
            terms[symbol] = terms.get(symbol, Fraction(0)) + factor
        kept = tuple(sorted((s, f) for s, f in terms.items() if f))
        return Size(kept, self.constant + other.constant)

    def times(self, factor: Fraction) -> Size:
        return Size(tuple((s, f * factor) for s, f in self.terms) if factor else (), self.constant * factor)

    def __sub__(self, other: Size) -> Size:
        return self + other.times(Fraction(-1))

    @property
    def number(self) -> Fraction | None:
        return None if self.terms else self.constant

    def substitute(self, known: Mapping[str, Size]) -> Size:
        result = Size((), self.constant)
        for symbol, factor in self.terms:
            result = result + known.get(symbol, Size.of(symbol)).times(factor)
        return result

    def evaluate(self, lengths: Callable[[str], Fraction]) -> Fraction:
        """The number, given every symbol's length."""
        return self.constant + sum((factor * lengths(symbol) for symbol, factor in self.terms), Fraction(0))

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


@dataclass(frozen=True, slots=True)
class Axis:
    """One axis: its name, its size and whether it counts the items of a stream."""

    name: str
    size: Size
    items: bool = False

    def __str__(self) -> str:
        star = "*" if self.items else ""
        size = str(self.size)
        return f"{size}{star}" if self.name in (size, "") or not self.size.terms else f"{self.name}{star}={size}"


@dataclass(frozen=True, slots=True)
class Rate:
    """A rate in hertz: a number times an optional variable of the signature."""

    factor: Fraction
    variable: str | None = None

    def __str__(self) -> str:
        if self.variable is None:
            return show_rate(self.factor)
        return self.variable if self.factor == 1 else f"{self.factor}*{self.variable}"


@dataclass(frozen=True, slots=True)
class Type:
    """A type, or a signature's pattern for one. `rest` stands for any further axes (`...`)."""

    base: str
    dtype: str | None = None
    axes: tuple[Axis, ...] = ()
    rest: bool = False
    vocabulary: Size | None = None
    rate: Rate | None = None

    @property
    def is_items(self) -> bool:
        return bool(self.axes) and self.axes[0].items

    def of_items(self, count: Size) -> Type:
        """The type of a stream of such items."""
        return replace(self, axes=(Axis("N", count, True), *self.axes))

    def item(self) -> Type:
        """The type of one item of this stream."""
        return replace(self, axes=self.axes[1:])

    def __str__(self) -> str:
        head = self.base
        if self.base == "tensor":
            head = _SHORT.get(self.dtype or "", self.dtype or "tensor")
        elif BASES.get(self.base) not in (None, self.dtype) and self.dtype:
            head = f"{self.base}:{_SHORT.get(self.dtype, self.dtype)}"
        axes = [str(axis) for axis in self.axes] + (["..."] if self.rest else [])
        shown = head + (f"[{', '.join(axes)}]" if axes else "")
        if self.vocabulary is not None:
            shown += f" < {self.vocabulary}"
        return shown + (f" @ {self.rate}" if self.rate is not None else "")


_WORD = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_TOKEN = re.compile(r"\s*(?:([0-9]+)|([A-Za-z_?][A-Za-z0-9_.]*)|([-+*/()]))")
_TYPE = re.compile(
    r"\s*(?P<base>\??[A-Za-z_][A-Za-z0-9_]*)(?::(?P<dtype>[a-z0-9]+))?\s*(?:\[(?P<axes>[^\]]*)\])?"
    r"\s*(?:<\s*(?P<vocabulary>[A-Za-z0-9_.]+))?\s*(?:@\s*(?P<rate>.+))?\Z"
)
MAX_TYPE_CHARACTERS = 400


def parse_type(text: str) -> Type:
    """Reads `f32[T, D=64] @ 80 Hz` and the like. Errors: TypeSyntaxError."""
    match = _TYPE.match(text) if len(text) <= MAX_TYPE_CHARACTERS else None
    if match is None:
        raise TypeSyntaxError("a type is a base with axes, e.g. `text`, `tokens[T]` or `f32[T, 80] @ 100 Hz`")
    base, dtype = _base(match["base"], match["dtype"])
    axes, rest = _axes(match["axes"])
    vocabulary = parse_size(match["vocabulary"]) if match["vocabulary"] else None
    return Type(base, dtype, axes, rest, vocabulary, _rate(match["rate"]) if match["rate"] else None)


def _base(text: str, dtype: str | None) -> tuple[str, str | None]:
    if dtype is not None and dtype not in DTYPES and dtype != "act":
        raise TypeSyntaxError(f"unknown dtype `{dtype}`; known: {', '.join(DTYPES)}")
    given = DTYPES.get(dtype, dtype) if dtype else None
    if text.startswith(ANY):
        return text, given
    if text in DTYPES:
        return "tensor", DTYPES[text]
    if text == "act":  # the activation dtype of the component
        return "tensor", "act"
    if text in BASES:
        return text, given or BASES[text]
    raise TypeSyntaxError(f"unknown base `{text}`; known: {', '.join([*BASES, *DTYPES])}")


def _axes(text: str | None) -> tuple[tuple[Axis, ...], bool]:
    if text is None:
        return (), False
    axes: list[Axis] = []
    parts = [part.strip() for part in text.split(",")]
    rest = parts[-1] == "..."
    for position, part in enumerate(parts[:-1] if rest else parts):
        name, equals, size = part.partition("=")
        items = name.rstrip().endswith("*")
        if items and position:
            raise TypeSyntaxError("only the leading axis can count items (`*`)")
        name = name.rstrip()[:-1].rstrip() if items else name.strip()
        axes.append(Axis(name, parse_size(size if equals else name), items))
    return tuple(axes), rest


def _rate(text: str) -> Rate:
    text = text.strip()
    number = parse_rate(text)
    if number is not None:
        return Rate(number)
    match = re.fullmatch(r"(?:([0-9]+)\s*\*\s*)?([a-z][a-z0-9_]*)(?:\s*/\s*([0-9]+))?", text)
    if match is None or match[3] == "0":
        raise TypeSyntaxError(f"`{text}` is no rate; write e.g. `12.5 Hz` or `24 kHz`")
    return Rate(Fraction(int(match[1] or 1), int(match[3] or 1)), match[2])


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


@dataclass(frozen=True, slots=True)
class Mismatch:
    """Why an actual type does not fit a pattern: the kind names the diagnostic, `axis` the axis when it is about one."""

    kind: str  # base dtype axes size alignment vocabulary rate items
    expected: str
    found: str
    axis: str = ""


@dataclass(slots=True)
class Bindings:
    """What a node's signature variables stand for, and what is known of checkpoint sizes over the whole graph."""

    sizes: dict[str, Size]
    bases: dict[str, Type]
    rates: dict[str, Fraction | None]
    solved: dict[str, Size]  # shared by all nodes

    @staticmethod
    def fresh(solved: dict[str, Size]) -> Bindings:
        return Bindings({}, {}, {}, solved)

    def resolve(self, size: Size) -> Size:
        size = size.substitute(self.sizes)
        while any(symbol in self.solved for symbol, _ in size.terms):
            size = size.substitute(self.solved)
        return size


def match(pattern: Type, actual: Type, bindings: Bindings) -> list[Mismatch]:
    """Binds the pattern's variables to the actual type; what cannot be made equal is returned."""
    if pattern.base.startswith(ANY):
        captured = bindings.bases.get(pattern.base)
        if captured is None:
            rest = actual.axes[len(pattern.axes) :] if pattern.rest else ()
            bindings.bases[pattern.base] = replace(actual, axes=rest)
        else:
            pattern = replace(
                pattern,
                base=captured.base,
                dtype=captured.dtype,
                axes=(*pattern.axes, *captured.axes) if pattern.rest else pattern.axes,
                rest=False,
            )
    found = _match_base(pattern, actual)
    if found:
        return found
    found = _match_axes(pattern, actual, bindings)
    found += _match_vocabulary(pattern, actual, bindings)
    found += _match_rate(pattern, actual, bindings)
    return found


_TENSORS = ("tensor", "audio", "image", "video", "latent")


def _match_base(pattern: Type, actual: Type) -> list[Mismatch]:
    if pattern.base.startswith(ANY):
        return []
    same = pattern.base == actual.base or (pattern.base == "tensor" and actual.base in _TENSORS)
    if not same:
        return [Mismatch("base", str(pattern), str(actual))]
    if pattern.dtype and actual.dtype and pattern.dtype != actual.dtype:
        return [Mismatch("dtype", _SHORT.get(pattern.dtype, pattern.dtype), _SHORT.get(actual.dtype, actual.dtype))]
    return []


def _match_axes(pattern: Type, actual: Type, bindings: Bindings) -> list[Mismatch]:
    if pattern.is_items != actual.is_items:
        return [Mismatch("items", "a stream of items" if pattern.is_items else "one item", str(actual))]
    few = len(actual.axes) < len(pattern.axes)
    if few or (len(actual.axes) > len(pattern.axes) and not pattern.rest):
        return [Mismatch("axes", str(pattern), str(actual))]
    found = []
    for wanted, given in zip(pattern.axes, actual.axes, strict=False):
        found += _match_size(wanted, given, bindings)
    return found


def _match_size(wanted: Axis, given: Axis, bindings: Bindings) -> list[Mismatch]:
    left, right = bindings.resolve(wanted.size), bindings.resolve(given.size)
    if left == right:
        return []
    difference = left - right
    # One variable of this signature, or one size that only the checkpoint knows, can be solved for.
    for symbol, factor in difference.terms:
        value = (Size.of(symbol).times(factor) - difference).times(1 / factor)
        if _is_variable(symbol):
            bindings.sizes[symbol] = value
            return []
        if symbol.startswith("?"):
            bindings.solved[symbol] = value
            return []
    kind = "size" if left.number is not None or right.number is not None else "alignment"
    return [Mismatch(kind, str(left), str(right), wanted.name or given.name)]


def _is_variable(symbol: str) -> bool:
    return "." not in symbol


def _match_vocabulary(pattern: Type, actual: Type, bindings: Bindings) -> list[Mismatch]:
    if pattern.vocabulary is None or actual.vocabulary is None:
        if pattern.vocabulary is not None:
            return []
        return []
    wanted, given = bindings.resolve(pattern.vocabulary), bindings.resolve(actual.vocabulary)
    for symbol, _ in wanted.terms:
        if _is_variable(symbol):
            bindings.sizes[symbol] = given
            return []
    if wanted.number is None or given.number is None or given.number <= wanted.number:
        return []
    return [Mismatch("vocabulary", str(wanted), str(given))]


def _match_rate(pattern: Type, actual: Type, bindings: Bindings) -> list[Mismatch]:
    given = actual.rate.factor if actual.rate is not None and actual.rate.variable is None else None
    if pattern.rate is None:
        return []
    variable = pattern.rate.variable
    if variable is not None and bindings.rates.get(variable) is None:
        bindings.rates[variable] = None if given is None else given / pattern.rate.factor
        return []
    wanted = pattern.rate.factor if variable is None else pattern.rate.factor * (bindings.rates[variable] or 1)
    if given is None or given == wanted:
        return []
    return [Mismatch("rate", show_rate(wanted), show_rate(given))]


def instantiate(pattern: Type, bindings: Bindings, node: str) -> Type:
    """The actual type of a signature's output; sizes that nothing binds become lengths of this node."""
    base, dtype, axes, rest, vocabulary = pattern.base, pattern.dtype, pattern.axes, pattern.rest, pattern.vocabulary
    if base.startswith(ANY):
        captured = bindings.bases.get(base)
        if captured is None:
            return Type("unknown")
        base, dtype, rest = captured.base, captured.dtype, captured.rest and rest
        axes = (*axes, *captured.axes) if pattern.rest else axes
        vocabulary = vocabulary or captured.vocabulary
    sized = []
    for axis in axes:
        size = bindings.resolve(axis.size)
        for symbol, _ in size.terms:
            if _is_variable(symbol):
                bindings.sizes[symbol] = Size.of(f"{node}.{symbol}")
        sized.append(replace(axis, size=bindings.resolve(axis.size)))
    rate = pattern.rate
    if rate is not None and rate.variable is not None:
        known = bindings.rates.get(rate.variable)
        rate = None if known is None else Rate(known * rate.factor)
    vocabulary = None if vocabulary is None else bindings.resolve(vocabulary)
    return Type(base, dtype, tuple(sized), rest, vocabulary, rate)


UNKNOWN = Type("unknown")


def is_unknown(type: Type) -> bool:
    """Whether nothing is known of it, because of an error reported elsewhere."""
    return type.base == "unknown"
