"""What is drawn: cards for inputs, nodes and outputs, and links between their ports. Every format reads only this."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from omniflow.errors import OmniFlowError
from omniflow_compiler.schedule import Place

VertexKind = Literal["input", "op", "loop", "output"]


class DrawError(OmniFlowError):
    """The picture cannot be made or written; the message says why and what to do."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fact:
    """One named line of a tooltip or of the side panel."""

    name: str
    value: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Socket:
    """A port of a vertex. Only linked sockets are drawn on the card; all are listed in tooltips."""

    name: str
    type: str
    streams: bool
    linked: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class InnerLoop:
    """The loop inside a loop: its name, its expert, and how many units it runs per outer one."""

    name: str
    expert: str
    length: int


@dataclass(frozen=True, slots=True, kw_only=True)
class VertexRun:
    """What a run measured at one node. `share` is its part of the busy seconds of all nodes, 0 to 1.

    `first` and `last` are the seconds after submission at which its first and last unit ended.
    """

    units: int
    seconds: float
    share: float
    first: float | None
    last: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkRun:
    """What a run measured on one edge. `weight` grows with the logarithm of its elements, 0 to 1."""

    elements: int
    weight: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Vertex:
    """A card. `id` is `input:NAME`, `node:NAME` or `output:NAME`, unique over the graph.

    `stage` is the path of the workflow's stage that a node belongs to, empty elsewhere; `name` is without it.
    """

    id: str
    kind: VertexKind
    stage: str
    name: str
    detail: str  # second line: op or loop kind and expert, or the type of an input or output
    expert: str | None
    units: tuple[str, ...]  # unit kinds of a loop
    inner: InnerLoop | None
    each: bool
    when: str | None
    inputs: tuple[Socket, ...]
    outputs: tuple[Socket, ...]
    facts: tuple[Fact, ...]
    critical: bool
    measured: VertexRun | None
    place: Place


@dataclass(frozen=True, slots=True, kw_only=True)
class Link:
    """An edge between two sockets. `type` is short enough to print; `policy` tells how a stream is cut, if it is."""

    id: str
    source: str
    source_port: str
    target: str
    target_port: str
    streams: bool
    back: bool
    type: str
    policy: str
    facts: tuple[Fact, ...]
    critical: bool
    measured: LinkRun | None
    place: Place


@dataclass(frozen=True, slots=True, kw_only=True)
class Family:
    """An expert of the legend. `colour` is its row in the palette."""

    name: str
    use: str
    colour: int
    facts: tuple[Fact, ...]
    place: Place


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """A stage of a workflow: the nodes of one program, drawn on common ground."""

    path: str
    program: str
    card: str
    place: Place


@dataclass(frozen=True, slots=True, kw_only=True)
class Graph:
    """Everything that is known about one program, in drawing order: inputs, nodes in topological order, outputs."""

    program: str
    card: str
    schedule: str  # content hash, empty when there is none
    vertices: tuple[Vertex, ...]
    links: tuple[Link, ...]
    families: tuple[Family, ...]
    groups: tuple[Group, ...]
    facts: tuple[Fact, ...]
    measured: bool

    def colour_of(self, expert: str | None) -> int | None:
        """The palette row of an expert, None for None."""
        return next((family.colour for family in self.families if family.name == expert), None)
