"""The schedule: the compiler's result and the only thing the runtime reads.

A schedule is deterministic JSON: its bytes do not depend on the order or the layout of the source files, so the places
things were written at are kept beside it in a map (`docs/decisions/0002-places-beside-the-schedule.md`).
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields, is_dataclass
from functools import cache
from typing import Any, Literal

LANGUAGE_VERSION = 1
FORMAT_VERSION = 1

Json = Any  # any JSON value; json.loads gives no better type


class ScheduleError(Exception):
    """A file that is not a schedule this version can run; the message says what to do."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where in the sources something was written: a file as the user named it, 1-based line and column.

    Line 0 where that is not known: a schedule whose map is missing knows its own name alone.
    """

    file: str
    line: int
    column: int

    def __str__(self) -> str:
        return f"{self.file}:{self.line}:{self.column}" if self.line else self.file


@dataclass(frozen=True, slots=True, kw_only=True)
class PortType:
    """A port's type: `text` is the printed type; `base`, `dtype` and `axes` are its parts; `rate_hz` may be absent."""

    text: str
    base: str
    dtype: str | None
    axes: tuple[str, ...]
    rate_hz: float | None
    vocabulary: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Input:
    """A program input. `required` is false when there is a default; `limits` has the most elements along each axis of

    its type, 0 where there is none, or nothing at all; `least` and `most` are of a number.
    """

    name: str
    type: PortType
    required: bool
    default: Json
    place: Place
    limits: tuple[int, ...] = ()
    least: float | None = None
    most: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Output:
    """A program output: the port `node.port` it is read from."""

    name: str
    node: str
    port: str
    type: PortType
    streams: bool
    place: Place


@dataclass(frozen=True, slots=True, kw_only=True)
class Expert:
    """One component of the card that the schedule needs; its weights are loaded once per process."""

    name: str
    use: str
    role: str
    source: str | None
    dtype: str
    device: str
    attributes: Mapping[str, Json]
    sizes: Mapping[str, int]
    weight_bytes: int
    digest: str
    place: Place


@dataclass(frozen=True, slots=True, kw_only=True)
class Cache:
    """A pool that loops lease from (`paged_kv`), or what encoders gave (`features`).

    `reuse` is `prefix` when prompts may begin with what others have cached, else empty.
    """

    name: str
    kind: str
    max_bytes: int
    block_tokens: int
    place: Place
    reuse: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Port:
    """A port of a scheduled node. `streams` says that chunks leave (or enter) while the node still runs."""

    name: str
    type: PortType
    streams: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class UnitTemplate:
    """The kind of work unit a node issues, how many are expected and the predicted seconds of one.

    `expert` is named for units of an inner loop; the others run on the node's own.
    """

    kind: str
    expected: int
    seconds: float
    expert: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Inner:
    """A loop that runs to its end inside each step of a node's loop.

    `feed` maps its input ports to values of the outer step (`token`, `hidden`, `embeds`); `back` names the output that
    joins the outer token in the next step's input; `length` is how many tokens it gives per outer step.
    """

    loop: str
    kind: str
    expert: str
    cache: str | None
    attributes: Mapping[str, Json]
    feed: Mapping[str, str]
    back: str
    length: int
    place: Place


@dataclass(frozen=True, slots=True, kw_only=True)
class Stage:
    """A program that went into the schedule: one for a program, one per stage (`path`) for a workflow."""

    path: str
    program: str
    card: str
    card_digest: str
    place: Place


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """A node in topological order.

    `kind` is "op" or "loop"; `name` is the op's or the loop kind's name; `expert` names the expert it is bound to;
    `attributes` are checked and have all defaults filled in. `each` maps the node over the items of its streams.
    `depth` is the longest distance from an input; the batcher serves larger depths first.
    `lengths` gives the names that an expression in the attributes reads (`think.tokens`) the ports (`node.port`) whose
    elements they count: the value is final once that node has ended, and never above what its own bound allows.
    `starts_at` and `ends_at` are predicted seconds after the request's start, were every node to run as soon as it can;
    `state_bytes` is what its items in work keep: keys and values without a cache, and what waits for earlier items.
    """

    id: str
    kind: Literal["op", "loop"]
    name: str
    loop: str | None
    expert: str | None
    cache: str | None
    inner: Inner | None
    attributes: Mapping[str, Json]
    each: bool
    when: str | None
    inputs: tuple[Port, ...]
    outputs: tuple[Port, ...]
    units: tuple[UnitTemplate, ...]
    depth: int
    place: Place
    lengths: Mapping[str, str] = field(default_factory=dict)
    starts_at: float = 0.0
    ends_at: float = 0.0
    state_bytes: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Channel:
    """An edge. `streams` is true for `~>`; sizes count elements of the leading axis, zero chunk means "as produced".

    `bytes` is what a full channel holds; zero for `->`, whose value is a buffer. `limits` has the most elements along
    each axis that inputs of stages and graphs let in on the way, 0 where there is none, or nothing at all.
    """

    id: str
    source: str  # "node.port", or the name of a program input
    node: str
    port: str
    order: int  # position among the edges that enter a variadic port
    streams: bool
    capacity: int
    chunk: int
    first_chunk: int
    left_context: int
    right_context: int
    start: int
    when_empty: Json
    back_edge: Json
    type: PortType
    place: Place
    bytes: int = 0
    limits: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Buffer:
    """A finished value that is held between its producer and its last consumer (positions in `nodes`).

    `port` is `node.port`, or the name of a program input.
    """

    port: str
    bytes: int
    first_use: int
    last_use: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Holder:
    """One holder of memory at the peak."""

    name: str
    kind: str
    bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Memory:
    """Peak bytes on one device while one request runs, the position at which it is reached, and the largest holders.

    It holds for every interleaving of nodes: buffers share a place only where one must be gone before the other comes.
    """

    device: str
    peak_bytes: int
    budget_bytes: int | None
    at: int
    holders: tuple[Holder, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Schedule:
    """A compiled program. Build it with `omniflow_compiler.compile`, read it with `read_schedule`."""

    program: str
    card: str
    stages: tuple[Stage, ...]
    compiler: str
    params: Mapping[str, Json]
    capabilities: tuple[str, ...]
    parity: Mapping[str, Json]
    inputs: tuple[Input, ...]
    outputs: tuple[Output, ...]
    experts: tuple[Expert, ...]
    caches: tuple[Cache, ...]
    nodes: tuple[Node, ...]
    channels: tuple[Channel, ...]
    buffers: tuple[Buffer, ...]
    memory: tuple[Memory, ...]
    critical_path: tuple[str, ...]
    critical_seconds: float
    lengths: Mapping[str, int] = field(default_factory=dict)  # most elements of what a request decides
    assumed: tuple[str, ...] = ()  # those of the lengths that nothing bounds
    content_hash: str = field(default="")

    def to_json(self) -> str:
        """Canonical JSON without places: byte-equal for equal schedules."""
        return _dump({**_header("schedule"), **_fields(self)})

    def to_map(self) -> str:
        """Places of everything in the schedule, as JSON, for messages and drawings."""
        body = {"hash": self.content_hash, "places": dict(_places(self, ""))}
        return _dump({**_header("schedule-map"), **body})

    def node(self, node_id: str) -> Node:
        """The node of that id. Errors: KeyError."""
        for node in self.nodes:
            if node.id == node_id:
                return node
        raise KeyError(node_id)


def content_hash(schedule: Schedule) -> str:
    """sha256 over the canonical JSON with an empty hash."""
    body = {**_header("schedule"), **_fields(schedule), "content_hash": ""}
    return hashlib.sha256(_compact(body).encode()).hexdigest()


def _header(kind: str) -> dict[str, Json]:
    return {"omniflow": LANGUAGE_VERSION, "kind": kind, "format": FORMAT_VERSION}


def _dump(body: Mapping[str, Json]) -> str:
    """The body as JSON, a line for each entry of its lists: canonical, readable in a diff, and written by C code."""
    lines = []
    for key in sorted(body):
        value = body[key]
        if isinstance(value, list | tuple) and value:
            shown = "[\n  " + ",\n  ".join(map(_compact, value)) + "\n ]"
        else:
            shown = _compact(value)
        lines.append(f" {_compact(key)}: {shown}")
    return "{\n" + ",\n".join(lines) + "\n}\n"


def _compact(value: Json) -> str:
    return _ENCODER.encode(value)


def _fields(record: Json) -> dict[str, Json]:
    """A record as a dictionary, without places."""
    if isinstance(record, Mapping):
        return dict(record)
    kind: Any = type(record)
    return {name: getattr(record, name) for name in _names(kind)}


@cache
def _names(kind: Any) -> tuple[str, ...]:
    return tuple(field.name for field in fields(kind) if field.name != "place")


_ENCODER = json.JSONEncoder(
    sort_keys=True, ensure_ascii=False, separators=(",", ":"), check_circular=False, default=_fields
)


def _places(value: Json, path: str) -> Iterator[tuple[str, tuple[str, int, int]]]:
    if isinstance(value, list | tuple):
        for index, item in enumerate(value):
            yield from _places(item, f"{path}/{index}")
    elif is_dataclass(value):
        for field in fields(value):
            item = getattr(value, field.name)
            if isinstance(item, Place):
                yield path, (item.file, item.line, item.column)
            else:
                yield from _places(item, f"{path}/{field.name}")
