"""What an author wrote, as data: cards and programs with the span of every part, before any name is resolved."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from omniflow_compiler.costs import Measured
from omniflow_compiler.load.tree import Scalar, ScalarValue
from omniflow_compiler.source import Span


@dataclass(frozen=True, slots=True, kw_only=True)
class Attribute:
    """A written attribute: its value and the spans of key and value."""

    value: object
    key_span: Span
    span: Span


@dataclass(frozen=True, slots=True, kw_only=True)
class Name:
    """A reference to something by name."""

    text: str
    span: Span


@dataclass(frozen=True, slots=True, kw_only=True)
class ComponentSpec:
    """A component: the expert it uses, its checkpoint, dtype and device, and the expert's own attributes."""

    name: Name
    use: Name
    source: str | None
    source_span: Span | None
    dtype: str
    device: str
    dtype_span: Span | None  # None for the default
    device_span: Span | None
    attributes: Mapping[str, Attribute]
    span: Span
    measured: Measured | None = None  # what its units were measured to take


@dataclass(frozen=True, slots=True, kw_only=True)
class LoopSpec:
    """A loop of the card: its kind, the component it runs, the cache it leases from."""

    name: Name
    kind: Name
    binds: Name
    cache: Name | None
    inner: InnerSpec | None
    attributes: Mapping[str, Attribute]
    span: Span


@dataclass(frozen=True, slots=True, kw_only=True)
class InnerSpec:
    """A loop inside a loop: which one, what its inputs read of the outer step, which output goes back."""

    loop: Name
    feed: Mapping[str, Name]  # inner input port -> value of the outer step
    back: Name


@dataclass(frozen=True, slots=True, kw_only=True)
class CacheSpec:
    """A pool that loops lease from, or what encoders gave. reuse: `prefix`, or empty."""

    name: Name
    kind: str
    max_bytes: int
    bytes_span: Span
    block_tokens: int
    reuse: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CardSpec:
    """A card, with everything it includes merged in."""

    id: Name
    title: str
    capabilities: tuple[Name, ...]
    includes: tuple[Name, ...]
    params: Mapping[str, ScalarValue]
    origins: Mapping[str, Span]  # where each param's value was written
    components: Mapping[str, ComponentSpec]
    loops: Mapping[str, LoopSpec]
    caches: Mapping[str, CacheSpec]
    parity: Mapping[str, object]
    span: Span
    declared: Mapping[str, Span] = field(default_factory=dict)  # where each param is declared
    unread: frozenset[str] = frozenset()  # `loops` or `loops.think`: written, but could not be read
    digest: str = ""  # of its meaning, with everything it includes

    @property
    def quantized(self) -> Mapping[str, float]:
        """How many nats per token weights in fewer bits may lose, by form; what is no number is left out."""
        written = self.parity.get("quantized")
        forms = written if isinstance(written, Mapping) else {}
        return {form: float(nats) for form, nats in forms.items() if isinstance(nats, int | float)}

    @property
    def tolerances(self) -> Mapping[str, float]:
        """How far outputs may differ by stage of a workflow, a program's own at ``; what is no number is left out."""
        written = self.parity.get("tolerance")
        stages = written if isinstance(written, Mapping) else {"": written}
        return {stage: float(most) for stage, most in stages.items() if isinstance(most, int | float)}

    def allows(self, component: str, form: str) -> bool:
        """Whether it says how far a component's weights in that form may be from full ones."""
        return form_key(component, form) in self.quantized

    def has(self, section: str, name: str) -> bool:
        """Whether the card declares the name in `components`, `loops` or `caches`, readable or not."""
        known = {"components": self.components, "loops": self.loops, "caches": self.caches}[section]
        return name in known or section in self.unread or f"{section}.{name}" in self.unread


def form_key(component: str, form: str) -> str:
    """Where `parity.quantized` bounds a component's form: `int8`, of a workflow's stage `STAGE/int8`."""
    stage, slash, _ = component.rpartition("/")
    return f"{stage}{slash}{form}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Limit:
    """The most elements along an axis of an input."""

    axis: Name
    most: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Bound:
    """The least or the most that a number may be."""

    number: float
    span: Span


@dataclass(frozen=True, slots=True, kw_only=True)
class InputSpec:
    """A program input: its type as written, its default, if any, and what it lets in.

    limits: the most elements along named axes. least, most: of a number.
    """

    name: Name
    type: Name
    has_default: bool
    default: ScalarValue
    help: str
    default_span: Span | None = None
    limits: Mapping[str, Limit] = field(default_factory=dict)
    least: Bound | None = None
    most: Bound | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PortRef:
    """`node.port`, or a program input when `node` is None."""

    node: str | None
    port: str
    span: Span

    def __str__(self) -> str:
        return self.port if self.node is None else f"{self.node}.{self.port}"


@dataclass(frozen=True, slots=True, kw_only=True)
class OutputSpec:
    """A program output and the port it shows."""

    name: Name
    ref: PortRef


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeSpec:
    """A node as written: `kind` is "op", "loop" or "graph", `name` the op, the card's loop or the graph's file."""

    id: Name
    kind: str
    name: Name
    component: Name | None
    each: bool
    when: Attribute | None
    attributes: Mapping[str, Attribute]
    span: Span


@dataclass(frozen=True, slots=True, kw_only=True)
class EdgeSpec:
    """An edge as written. `streams` for `~>`."""

    source: PortRef
    target: PortRef
    streams: bool
    attributes: Mapping[str, Attribute]
    order: int
    span: Span
    is_sound: bool = True  # false when its attributes are faulty
    contracts: tuple[InputSpec, ...] = ()  # of graphs and stages that it passes into


@dataclass(frozen=True, slots=True, kw_only=True)
class StageSpec:
    """A program inside the whole: `path` is empty for a program, the stage's path for a workflow."""

    path: str
    program: Name
    card: Name
    card_digest: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ProgramSpec:
    """A program (or graph, or a workflow joined into one program)."""

    id: Name
    title: str
    card: Name
    params: Mapping[str, ScalarValue]
    origins: Mapping[str, Span]  # where each param's value was written
    inputs: Mapping[str, InputSpec]
    outputs: Mapping[str, OutputSpec]
    nodes: Mapping[str, NodeSpec]
    broken_nodes: frozenset[str]  # ids that were written but could not be read; refer to them without complaint
    edges: tuple[EdgeSpec, ...]
    span: Span
    mentioned: frozenset[str] = frozenset()  # names and `node.port` in edges and outputs that cannot be read
    is_whole: bool = True  # false when a section could not be read: then nothing can be said of the graph
    declared: Mapping[str, Span] = field(default_factory=dict)  # where each param is declared
    stages: tuple[StageSpec, ...] = ()
    shows_all: bool = True  # false when an output cannot be read
    stage_outputs: frozenset[str] = frozenset()  # nodes that stages of a workflow offer, read or not


@dataclass(frozen=True, slots=True, kw_only=True)
class StageOfWorkflow:
    """A stage as written: its program's file and values of params."""

    name: Name
    program: Name
    params: Mapping[str, Scalar]
    param_keys: Mapping[str, Span]


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkflowSpec:
    """A workflow as written, before its stages are joined."""

    id: Name
    title: str
    inputs: Mapping[str, InputSpec]
    outputs: Mapping[str, OutputSpec]
    stages: Mapping[str, StageOfWorkflow]
    edges: tuple[EdgeSpec, ...]
    span: Span
