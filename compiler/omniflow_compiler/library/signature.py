"""Signatures: the ports, attributes, sizes and costs of ops, loop kinds and experts, without any of their code."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any, Literal

from omniflow_compiler.types import Type, parse_type

AttributeType = Literal["int", "float", "bool", "text", "ids", "bytes", "expression", "texts", "numbers"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Attribute:
    """An attribute of an op, a loop kind or an expert. `required` ones have no default.

    is_fixed: it belongs to what the program is, which types and weights rely on; no request can change it.
    """

    name: str
    type: AttributeType
    default: object = None
    required: bool = False
    choices: tuple[str, ...] = ()
    minimum: float | None = None
    maximum: float | None = None
    is_fixed: bool = False
    doc: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Port:
    """A port. `streams`: an input that takes chunks as they come, an output that gives them.

    A size of the component may be a factor in its type, `image[{scale}*H, {scale}*W, 3]`.

    `left` and `right` are the context a streamed input needs for its chunks to equal the whole;
    `lags` counts elements by which an output trails its input; an op takes an input with `items` item by item.
    """

    name: str
    type: str
    required: bool = True
    streams: bool = False
    variadic: bool = False
    left: int = 0
    right: int = 0
    lags: int = 0
    items: bool = False
    doc: str = ""

    @property
    def pattern(self) -> Type:
        return _pattern(self.type)


@cache
def _pattern(text: str) -> Type:
    return parse_type(text)


@dataclass(frozen=True, slots=True, kw_only=True)
class Ports:
    """Inputs and outputs, in order."""

    inputs: tuple[Port, ...]
    outputs: tuple[Port, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class OpSignature:
    """An op of the closed set. `needs` is the role of the component it works with.

    most: the most elements of a length that the op decides, affine in its inputs' lengths and in numbers that come at
    its ports; `{hop}` is a size of its component.
    """

    name: str
    ports: Ports
    doc: str
    needs: str | None = None
    attributes: tuple[Attribute, ...] = ()
    barrier: bool = True  # runs once all inputs are whole; otherwise chunk by chunk
    most: Mapping[str, str] = field(default_factory=dict)
    overlaps: bool = False  # its edges may cut pieces with context: it tells what is new in them
    seconds: float = 20e-6
    lanes: int = 16  # items of a node with `each` that are in work at once


@dataclass(frozen=True, slots=True, kw_only=True)
class LoopSignature:
    """A loop kind: the work units it issues and the attributes it reads.

    lanes: how many items of a node with `each` the runtime has in work at once.
    """

    kind: str
    units: tuple[str, ...]
    attributes: tuple[Attribute, ...]
    lanes: int
    doc: str


@dataclass(frozen=True, slots=True, kw_only=True)
class FromConfig:
    """A size read from the checkpoint's config.json, `path` with dots; `default` while no checkpoint is there.

    file: of a folder with several parts, `vae/config.json`. read: what the value means, None for one it cannot use.
    """

    path: str
    default: int | None = None
    file: str = "config.json"
    read: Callable[[Any], int | None] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Prescribed:
    """An attribute of a loop that the checkpoint may prescribe: `read` finds it in the JSON object of `file`, or of

    `otherwise` where that says nothing. None leaves the attribute its default; what a card writes wins over both.
    """

    file: str
    read: Callable[[Mapping[str, Any]], object]
    otherwise: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpertSignature:
    """An expert: its role, its ports under each loop kind that can bind it, its sizes and what it costs.

    most: the most elements of a length that it decides, as for an op.
    """

    use: str
    role: str
    doc: str
    serves: Mapping[str, Ports] = field(default_factory=dict)
    sizes: Mapping[str, int | FromConfig] = field(default_factory=dict)
    attributes: tuple[Attribute, ...] = ()
    most: Mapping[str, str] = field(default_factory=dict)
    num_parameters: int | FromConfig = 0
    num_quantized: Mapping[str, int | FromConfig] = field(default_factory=dict)  # by the value of attribute `quantize`
    needs_source: bool = False
    takes_source: bool = True  # whether `from` has a meaning
    dtypes: tuple[str, ...] = ()  # that its weights can have, where those are not all
    devices: tuple[str, ...] = ()  # kinds of device it can live on, where those are not all
    rows: tuple[str, ...] = ()  # names that `when_empty: {hold: ...}` may use
    kv_bytes_per_token: int | FromConfig = 0  # of keys and values in float32; of what a world model keeps of a chunk
    leases: bool = True  # its sequences lease from the cache that a loop names
    forks: bool = False  # a sequence can begin with what another one has cached
    hop: int = 0  # output elements per input element of a stream decoder
    strides: tuple[int, ...] = ()  # of a causal decoder that drops its tail
    unit_seconds: Mapping[str, float] = field(default_factory=dict)
    guided: Mapping[str, str] = field(
        default_factory=dict
    )  # loop kind -> port of the unconditional branch; "": its own
    codebooks: str = ""  # the size that says of how many codebooks a step chooses a code each
    prescribes: Mapping[str, Mapping[str, Prescribed]] = field(default_factory=dict)  # loop kind -> attribute -> where
