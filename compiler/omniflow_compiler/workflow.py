"""Reads a workflow: programs of several cards, joined into one program over one card with a prefix per stage."""

from __future__ import annotations

from collections.abc import Mapping as MappingOf
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TypeVar

from omniflow_compiler import codes
from omniflow_compiler.cards import find_card
from omniflow_compiler.diagnostics import Label, Report
from omniflow_compiler.expand import expand_graphs, mentions, port_span
from omniflow_compiler.files import Chain, open_spec
from omniflow_compiler.include import read_card
from omniflow_compiler.load.tree import Mapping, Scalar, ScalarValue
from omniflow_compiler.names import unknown
from omniflow_compiler.parse.program import parse_program
from omniflow_compiler.parse.workflow import parse_workflow
from omniflow_compiler.source import SourceSet, Span
from omniflow_compiler.spec import (
    CacheSpec,
    CardSpec,
    ComponentSpec,
    EdgeSpec,
    InputSpec,
    LoopSpec,
    Name,
    NodeSpec,
    OutputSpec,
    PortRef,
    ProgramSpec,
    StageSpec,
    WorkflowSpec,
)
from omniflow_compiler.suggest import nearest

MAX_STAGES = 500

Entry = TypeVar("Entry", ComponentSpec, LoopSpec, CacheSpec)


@dataclass(frozen=True, slots=True, kw_only=True)
class Whole:
    """A program with everything it is made of, ready to be resolved."""

    program: ProgramSpec
    card: CardSpec
    card_path: Path | None  # None for a workflow


def read_program(
    path: Path, tree: Mapping, overrides: MappingOf[str, Scalar], sources: SourceSet, report: Report
) -> Whole | None:
    """A program with its graphs expanded and its card; None when the card cannot be found."""
    program = parse_program(tree, overrides, report)
    program = expand_graphs(program, Chain(paths=(path.resolve(),), names=()), sources, report)
    found = find_card(path, program.card, sources, report)
    if found is None:
        return None
    card = read_card(found[0], found[1], overrides, sources, report)
    stage = StageSpec(path="", program=program.id, card=card.id, card_digest=card.digest)
    return Whole(program=replace(program, stages=(stage,)), card=card, card_path=found[0])


def read_workflow(
    path: Path,
    tree: Mapping,
    overrides: MappingOf[str, Scalar],
    sources: SourceSet,
    report: Report,
    chain: Chain | None = None,
) -> Whole:
    """A workflow as one program: stage `draw` brings nodes `draw/...` and components `draw/...`."""
    chain = chain or Chain(paths=(path.resolve(),), names=())
    workflow = parse_workflow(tree, overrides, report)
    joint = _Joint(workflow=workflow)
    for name, stage in workflow.stages.items():
        chain.opened.num_stages += 1
        if chain.opened.num_stages > MAX_STAGES:
            _refuse_more(stage.program, chain, report)
            break
        opened = open_spec(stage.program, ("program", "workflow"), chain, sources, report)
        if opened is None:
            continue
        prefix = f"{name}."
        own = {k.removeprefix(prefix): v for k, v in overrides.items() if k.startswith(prefix)}
        params = {**stage.params, **own}
        if opened[1] == "workflow":
            inner = chain.then(opened[0], stage.program)
            whole: Whole | None = read_workflow(opened[0], opened[2], params, sources, report, inner)
        else:
            whole = read_program(opened[0], opened[2], params, sources, report)
        if whole is not None:
            joint.add(name, whole, report, stage.params)
    return joint.whole(report)


def _refuse_more(program: Name, chain: Chain, report: Report) -> None:
    """Says once that there are too many stages."""
    if chain.opened.num_stages == MAX_STAGES + 1:
        message = f"there are more than {MAX_STAGES} stages, those of workflows in workflows counted"
        report.add(codes.BAD_VALUE, program.span, message, help=["workflows that name workflows multiply: use fewer"])


@dataclass(slots=True)
class _Joint:
    """The joined program as it grows."""

    workflow: WorkflowSpec
    stages: dict[str, ProgramSpec] = field(default_factory=dict)
    nodes: dict[str, NodeSpec] = field(default_factory=dict)
    broken: set[str] = field(default_factory=set)
    edges: list[EdgeSpec] = field(default_factory=list)
    inputs: dict[str, InputSpec] = field(default_factory=dict)
    components: dict[str, ComponentSpec] = field(default_factory=dict)
    loops: dict[str, LoopSpec] = field(default_factory=dict)
    caches: dict[str, CacheSpec] = field(default_factory=dict)
    params: dict[str, ScalarValue] = field(default_factory=dict)
    origins: dict[str, Span] = field(default_factory=dict)
    paths: list[StageSpec] = field(default_factory=list)
    offered: set[str] = field(default_factory=set)
    mentioned: set[str] = field(default_factory=set)  # by edges that lead nowhere
    unread: set[str] = field(default_factory=set)
    quantized: dict[str, float] = field(default_factory=dict)  # of the stages' cards, by stage and form
    tolerances: dict[str, float] = field(default_factory=dict)  # of the stages' cards, by stage

    def add(self, name: str, whole: Whole, report: Report, given: MappingOf[str, Scalar]) -> None:
        program, card = whole.program, whole.card
        self.stages[name] = program
        known = {**card.params, **program.params}
        keys = self.workflow.stages[name].param_keys
        for param in given:
            if param not in known:
                unknown(report, codes.UNKNOWN_PARAM, Name(text=param, span=keys[param]), known, "param")
        self.params |= {f"{name}.{key}": value for key, value in known.items()}
        self.origins |= {f"{name}.{key}": span for key, span in {**card.origins, **program.origins}.items()}
        self.components |= _prefixed(name, card.components)
        self.caches |= _prefixed(name, card.caches)
        self.quantized |= {f"{name}/{form}": nats for form, nats in card.quantized.items()}
        self.tolerances |= {f"{name}/{stage}".rstrip("/"): most for stage, most in card.tolerances.items()}
        self.loops |= {
            f"{name}/{key}": replace(
                loop,
                name=_in(name, loop.name),
                binds=_in(name, loop.binds),
                cache=None if loop.cache is None else _in(name, loop.cache),
                inner=None if loop.inner is None else replace(loop.inner, loop=_in(name, loop.inner.loop)),
            )
            for key, loop in card.loops.items()
        }
        for key, node in program.nodes.items():
            self.nodes[f"{name}/{key}"] = replace(
                node,
                id=_in(name, node.id),
                name=_in(name, node.name) if node.kind == "loop" else node.name,
                component=None if node.component is None else _in(name, node.component),
            )
        for key in card.unread:
            section, dot, entry = key.partition(".")
            self.unread.add(f"{section}.{name}/{entry}" if dot else section)
        self.broken |= {f"{name}/{key}" for key in program.broken_nodes}
        for edge in program.edges:
            if edge.source.node is not None:
                self.edges.append(replace(edge, source=_inside(name, edge.source), target=_inside(name, edge.target)))
        ends = {output.ref.node for output in program.outputs.values()} | program.stage_outputs
        self.offered |= {f"{name}/{node}" for node in ends}
        for stage in program.stages:
            self.paths.append(replace(stage, path=f"{name}/{stage.path}".rstrip("/")))

    def whole(self, report: Report) -> Whole:
        workflow = self.workflow
        self.inputs = dict(workflow.inputs)
        edges = [*self.edges, *(new for edge in workflow.edges for new in self._rewire(edge, report))]
        edges += self._defaults(report)
        outputs = {name: self._output(spec, report) for name, spec in workflow.outputs.items()}
        program = ProgramSpec(
            id=workflow.id,
            title=workflow.title,
            card=workflow.id,
            params={},
            origins={},
            inputs=self.inputs,
            outputs={name: spec for name, spec in outputs.items() if spec is not None},
            nodes=self.nodes,
            broken_nodes=frozenset(self.broken),
            edges=tuple(replace(edge, order=order) for order, edge in enumerate(edges)),
            span=workflow.span,
            stages=tuple(self.paths),
            mentioned=frozenset(self.mentioned),
            shows_all=all(spec is not None for spec in outputs.values()),
            is_whole=all(stage.is_whole for stage in self.stages.values()),
            stage_outputs=frozenset(self.offered),
        )
        card = CardSpec(
            id=workflow.id,
            title=workflow.title,
            capabilities=(),
            includes=(),
            params=self.params,
            origins=self.origins,
            components=self.components,
            loops=self.loops,
            caches=self.caches,
            parity={
                key: by_stage
                for key, by_stage in (("quantized", self.quantized), ("tolerance", self.tolerances))
                if by_stage
            },
            digest="",
            span=workflow.span,
            unread=frozenset(self.unread),
        )
        return Whole(program=program, card=card, card_path=None)

    def _rewire(self, edge: EdgeSpec, report: Report) -> list[EdgeSpec]:
        """The edges that stand for one edge of the workflow: one per reader of the stage's input."""
        source = self._source(edge.source, report)
        stage = self._stage(edge.target, report)
        name, port = edge.target.node or "", edge.target.port
        if source is None or stage is None:
            self.mentioned |= {str(edge.source), *(mentions(name, stage) if stage is not None else ())}
            return []
        if port not in stage.inputs:
            unknown(report, codes.UNKNOWN_INPUT, Name(text=port, span=port_span(edge.target)), stage.inputs, "input")
            self.mentioned |= {str(edge.source), *mentions(name, stage)}
            return []
        return [
            replace(
                edge,
                source=source,
                target=_inside(name, inner.target),
                streams=edge.streams and inner.streams,
                attributes=inner.attributes if edge.streams and inner.streams else {},
                contracts=(stage.inputs[port], *inner.contracts),
            )
            for inner in stage.edges
            if inner.source.node is None and inner.source.port == port
        ]

    def _defaults(self, report: Report) -> list[EdgeSpec]:
        """Inputs of stages that no edge feeds: with a default they become the workflow's own, else they are missing."""
        # An edge with a misspelt end may have been meant for an input: do not complain twice.
        fed = {(self._nearest(edge.target.node), edge.target.port) for edge in self.workflow.edges}
        edges = []
        for name, stage in self.stages.items():
            for port, spec in stage.inputs.items():
                if (name, port) in fed or any(node == name and nearest(port, [other]) for node, other in fed):
                    continue
                if not spec.has_default:
                    label = Label(span=spec.name.span, text="declared here")
                    at, help = self.workflow.stages[name].program.span, [f"add an edge `... -> {name}.{port}`"]
                    report.add(
                        codes.MISSING_INPUT,
                        at,
                        f"input `{port}` of stage `{name}` has no producer",
                        labels=[label],
                        help=help,
                    )
                    self.mentioned |= mentions(name, stage)
                    continue
                self.inputs[f"{name}/{port}"] = replace(spec, name=_in(name, spec.name))
                for inner in stage.edges:
                    if inner.source.node is None and inner.source.port == port:
                        source = replace(inner.source, port=f"{name}/{port}")
                        edges.append(replace(inner, source=source, target=_inside(name, inner.target)))
        return edges

    def _source(self, ref: PortRef, report: Report) -> PortRef | None:
        if ref.node is None:
            return ref
        stage = self._stage(ref, report)
        if stage is None:
            return None
        output = stage.outputs.get(ref.port)
        if output is None:
            if stage.shows_all:
                at = Name(text=ref.port, span=port_span(ref))
                unknown(report, codes.UNKNOWN_OUTPUT, at, stage.outputs, "output")
            self.mentioned |= mentions(ref.node or "", stage)
            return None
        return replace(_inside(ref.node, output.ref), span=ref.span)

    def _stage(self, ref: PortRef, report: Report) -> ProgramSpec | None:
        stage = self.stages.get(ref.node or "")
        if stage is None and ref.node not in self.workflow.stages:
            name = ref.node or ""
            at = Name(text=name, span=ref.span.part(0, len(name)) if ref.span.line == ref.span.end_line else ref.span)
            unknown(report, codes.UNKNOWN_NODE, at, self.workflow.stages, "stage")
            meant = self.stages.get(self._nearest(name) or "")
            self.mentioned |= mentions(self._nearest(name) or "", meant) if meant is not None else set()
        return stage

    def _nearest(self, name: str | None) -> str | None:
        """The stage of that name, or the one that was probably meant."""
        if name in self.workflow.stages or name is None:
            return name
        return next(iter(nearest(name, self.workflow.stages, most=1)), name)

    def _output(self, spec: OutputSpec, report: Report) -> OutputSpec | None:
        ref = self._source(spec.ref, report)
        return None if ref is None else replace(spec, ref=ref)


def _prefixed(name: str, entries: MappingOf[str, Entry]) -> dict[str, Entry]:
    return {f"{name}/{key}": replace(entry, name=_in(name, entry.name)) for key, entry in entries.items()}


def _in(stage: str, name: Name) -> Name:
    return replace(name, text=f"{stage}/{name.text}")


def _inside(stage: str, ref: PortRef) -> PortRef:
    return replace(ref, node=f"{stage}/{ref.node}")
