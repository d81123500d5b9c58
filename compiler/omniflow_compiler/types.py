"""Types of ports: a base, a dtype, named axes with sizes, a vocabulary and a rate; reading and printing.

In a signature the symbols of sizes are variables of that node; on an edge they are lengths that a request decides
(`think.T`) or sizes that a checkpoint decides (`?vae.C`, solved as soon as known).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from fractions import Fraction

from omniflow_compiler.quantities import parse_rate, show_rate
from omniflow_compiler.sizes import Size, TypeSyntaxError, parse_size

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

    @property
    def short(self) -> str:
        """As people say it: `T`, `hidden=576`, `N*`, with no owner of a symbol."""
        size = self.size.short
        named = self.size.number is not None and _WORD.fullmatch(self.name) is not None
        return f"{self.name}={size}" if named else f"{size}{'*' if self.items else ''}"


@dataclass(frozen=True, slots=True)
class Rate:
    """A rate in hertz: a number times an optional variable, of the signature (`r`) or of the graph (`think/tokens`)."""

    factor: Fraction
    variable: str | None = None

    def __str__(self) -> str:
        if self.variable is None:
            return show_rate(self.factor)
        return self.variable if self.factor == 1 else f"{self.factor}*{self.variable}"


@dataclass(frozen=True, slots=True)
class Type:
    """A type, or a signature's pattern for one. `rest` stands for any further axes (`...`).

    Ids are below `vocabulary`; `holes` are ids below it that never occur.
    """

    base: str
    dtype: str | None = None
    axes: tuple[Axis, ...] = ()
    rest: bool = False
    vocabulary: Size | None = None
    rate: Rate | None = None
    holes: frozenset[int] = frozenset()

    @property
    def is_items(self) -> bool:
        return bool(self.axes) and self.axes[0].items

    def of_items(self, count: Size) -> Type:
        """The type of a stream of such items."""
        return replace(self, axes=(Axis("N", count, True), *self.axes))

    def item(self) -> Type:
        """The type of one item of this stream."""
        return replace(self, axes=self.axes[1:])

    @property
    def short(self) -> str:
        """As people say it, for messages: `f32[T, hidden=576] @ 80 Hz`."""
        return self._shown(
            [axis.short for axis in self.axes], None if self.vocabulary is None else self.vocabulary.short
        )

    def __str__(self) -> str:
        return self._shown([str(axis) for axis in self.axes], None if self.vocabulary is None else str(self.vocabulary))

    def _shown(self, axes: list[str], vocabulary: str | None) -> str:
        head = self.base
        if self.base == "tensor":
            head = show_dtype(self.dtype or "tensor")
        elif BASES.get(self.base) not in (None, self.dtype) and self.dtype:
            head = f"{self.base}:{show_dtype(self.dtype)}"
        axes = [*axes, "..."] if self.rest else axes
        shown = head + (f"[{', '.join(axes)}]" if axes else "")
        if vocabulary is not None:
            shown += f" < {vocabulary}"
        is_told = self.rate is not None and "/" not in str(self.rate.variable)
        return shown + (f" @ {self.rate}" if is_told else "")


def show_dtype(dtype: str) -> str:
    """`f32` for `float32`."""
    return _SHORT.get(dtype, dtype)


_WORD = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
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
    raise TypeSyntaxError(f"unknown base `{text}`")


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


UNKNOWN = Type("unknown")


def is_unknown(type: Type) -> bool:
    """Whether nothing is known of it, because of an error reported elsewhere."""
    return type.base == "unknown"


__all__ = [
    "ANY", "BASES", "DTYPES", "DTYPE_BYTES", "UNKNOWN", "Axis", "Rate", "Size", "Type", "TypeSyntaxError", "is_unknown",
    "parse_size", "parse_type", "show_dtype",
]  # fmt: skip
