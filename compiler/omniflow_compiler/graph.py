"""The program as a graph: nodes with resolved ports, edges, and the graph of ids that algorithms walk."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from omniflow_compiler.digraph import Digraph
from omniflow_compiler.library.signature import ExpertSignature, LoopSignature, OpSignature, Port
from omniflow_compiler.source import Span
from omniflow_compiler.spec import CardSpec, ComponentSpec, EdgeSpec, LoopSpec, NodeSpec, ProgramSpec
from omniflow_compiler.types import Type


@dataclass(frozen=True, slots=True, kw_only=True)
class Component:
    """A component of the card with its signature; `sizes` that only a checkpoint knows are absent.

    `num_quantized` of its parameters are held as its attribute `quantize` says; `kv_bytes_per_token` is in its dtype.
    `measured` are the kinds of units whose seconds were measured in this card's loops, guidance and all.
    """

    spec: ComponentSpec
    signature: ExpertSignature
    sizes: Mapping[str, int]
    attributes: Mapping[str, object]
    num_parameters: int
    num_quantized: int = 0
    kv_bytes_per_token: int = 0
    measured: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class Inner:
    """The loop inside a loop: it runs to its end within each outer step.

    `feed` says which value of the outer step (`token`, `hidden`, `embeds`) each of its inputs reads; `back` is the
    output that joins the outer token in the next step's input. `length` is how many tokens it gives per outer step.
    """

    loop: LoopSignature
    spec: LoopSpec
    component: Component
    attributes: Mapping[str, object]
    feed: Mapping[str, str]
    back: str
    length: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """A node with its ports and checked attributes. `is_known` is false when its op or loop could not be resolved:
    then any port may be named and nothing is said about types, because the cause was reported.
    """

    id: str
    spec: NodeSpec | None
    is_known: bool
    op: OpSignature | None = None
    loop: LoopSignature | None = None
    loop_spec: LoopSpec | None = None
    component: Component | None = None
    inner: Inner | None = None
    inputs: Mapping[str, Port]
    outputs: Mapping[str, Port]
    attributes: Mapping[str, object]
    each: bool = False
    span: Span

    @property
    def components(self) -> tuple[Component, ...]:
        """The components it runs, the inner loop's last."""
        own = () if self.component is None else (self.component,)
        return own if self.inner is None else (*own, self.inner.component)

    @property
    def loop_specs(self) -> tuple[LoopSpec, ...]:
        """The card's loops it runs, the inner one last."""
        own = () if self.loop_spec is None else (self.loop_spec,)
        return own if self.inner is None else (*own, self.inner.spec)

    @property
    def label(self) -> str:
        """What it is, for people: `op segment`, `loop think`."""
        return f"{self.spec.kind} {self.spec.name.text}" if self.spec is not None else "node"


@dataclass(frozen=True, slots=True, kw_only=True)
class Edge:
    """An edge between resolved ports. `source_node` is None for a program input; ports are None where unknown."""

    spec: EdgeSpec
    source_node: str | None
    source_port: Port | None
    target_node: str
    target_port: Port | None

    @property
    def key(self) -> int:
        return self.spec.order

    @property
    def is_back(self) -> bool:
        return "back_edge" in self.spec.attributes

    def attribute(self, name: str, default: int) -> int:
        written = self.spec.attributes.get(name)
        return written.value if written is not None and isinstance(written.value, int) else default


@dataclass(frozen=True, slots=True, kw_only=True)
class ProgramGraph:
    """A program over its card.

    `graph` has node ids and the edges between them; back edges are not in it. `incoming` and `outgoing` have all edges,
    back edges too.
    """

    card: CardSpec
    program: ProgramSpec
    components: Mapping[str, Component]
    inputs: Mapping[str, Type]
    nodes: Mapping[str, Node]
    edges: tuple[Edge, ...]
    incoming: Mapping[str, tuple[Edge, ...]]
    outgoing: Mapping[str, tuple[Edge, ...]]
    graph: Digraph
