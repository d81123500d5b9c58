"""A spec as an editor sees it: its own text and names, with what the compiler found out about them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from omniflow_compiler.cards import find_card
from omniflow_compiler.diagnostics import Report
from omniflow_compiler.files import Chain, open_spec
from omniflow_compiler.graph import Component, Node
from omniflow_compiler.include import read_card
from omniflow_compiler.library.library import Library
from omniflow_compiler.library.signature import Port
from omniflow_compiler.load.document import read_document
from omniflow_compiler.load.tree import Mapping as Tree
from omniflow_compiler.parse.kind import kind_of
from omniflow_compiler.parse.program import parse_program
from omniflow_compiler.parse.workflow import parse_workflow
from omniflow_compiler.passes.types import Types
from omniflow_compiler.pipeline import Options, compile_file
from omniflow_compiler.resolve import resolve_components, resolve_loops
from omniflow_compiler.source import SourceSet
from omniflow_compiler.spec import CardSpec, InputSpec, NodeSpec, ProgramSpec, WorkflowSpec


@dataclass(frozen=True, slots=True, kw_only=True)
class Socket:
    """A port of a node: its type, inferred where the compiler could, and what it is for."""

    type: str
    doc: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """A node or a stage: what it is and its ports."""

    what: str
    doc: str = ""
    inputs: Mapping[str, Socket] = field(default_factory=dict)
    outputs: Mapping[str, Socket] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """Everything known of one spec. What could not be read is empty; `report` says why."""

    name: str
    kind: str | None
    report: Report
    sources: SourceSet
    library: Library
    tree: Tree | None = None
    card: CardSpec | None = None
    card_path: Path | None = None
    components: Mapping[str, Component] = field(default_factory=dict)
    loops: Mapping[str, Node] = field(default_factory=dict)
    program: ProgramSpec | None = None
    workflow: WorkflowSpec | None = None
    parts: Mapping[str, Part] = field(default_factory=dict)

    @property
    def inputs(self) -> Mapping[str, InputSpec]:
        """The inputs of the program or workflow."""
        whole = self.program or self.workflow
        return {} if whole is None else whole.inputs


def read_spec(path: Path, options: Options) -> Reading:
    """Reads the spec in a file. Nothing is raised for what an author wrote."""
    compilation = compile_file(path, options)
    sources, quiet = compilation.sources, Report()
    name, library = sources.name_of(path), options.library
    document = read_document(path, sources, quiet)
    tree = None if document is None else document[1]
    kind = None if tree is None else kind_of(tree, quiet)
    base = Reading(name=name, kind=kind, report=compilation.report, sources=sources, library=library, tree=tree)
    if tree is None or kind is None:
        return base
    if kind == "workflow":
        return _workflow(path, tree, base, options)
    program = None if kind in ("card", "config") else parse_program(tree, {}, quiet, kind=kind)
    found = (
        (path, tree) if kind == "card" else None if program is None else find_card(path, program.card, sources, quiet)
    )
    card = None if found is None else read_card(found[0], found[1], {}, sources, quiet)
    components = {} if card is None else resolve_components(card, library, quiet)
    loops = {} if card is None else resolve_loops(card, components, library, quiet)
    parts: dict[str, Part] = {}
    if program is not None:
        chain = Chain(paths=(path.resolve(),), names=())
        for spec in program.nodes.values():
            parts[spec.id.text] = _part(spec, loops, library, compilation.types, chain, sources)
    return Reading(
        name=name,
        kind=kind,
        report=compilation.report,
        sources=sources,
        library=library,
        tree=tree,
        card=card,
        card_path=None if found is None else found[0],
        components=components,
        loops=loops,
        program=program,
        parts=parts,
    )


def _part(
    spec: NodeSpec, loops: Mapping[str, Node], library: Library, types: Types | None, chain: Chain, sources: SourceSet
) -> Part:
    what = f"{spec.kind} {spec.name.text}"
    if spec.kind == "graph":
        opened = open_spec(spec.name, ("graph",), chain, sources, Report())
        graph = None if opened is None else parse_program(opened[2], {}, Report(), kind="graph")
        if graph is None:
            return Part(what=what)
        inputs = {name: Socket(type=port.type.text, doc=port.help) for name, port in graph.inputs.items()}
        return Part(
            what=what, doc=graph.title, inputs=inputs, outputs={name: Socket(type="") for name in graph.outputs}
        )
    op, loop = library.ops.get(spec.name.text), loops.get(spec.name.text)
    arriving, produced = ({}, {}) if types is None else (types.inputs, types.outputs)
    if spec.kind == "op" and op is not None:
        ins, outs, doc = op.ports.inputs, op.ports.outputs, op.doc
    elif spec.kind == "loop" and loop is not None and loop.loop is not None:
        ins, outs, doc = tuple(loop.inputs.values()), tuple(loop.outputs.values()), loop.loop.doc
    else:
        return Part(what=what)
    return Part(
        what=what,
        doc=doc,
        inputs={port.name: _socket(port, spec.id.text, arriving) for port in ins},
        outputs={port.name: _socket(port, spec.id.text, produced) for port in outs},
    )


def _socket(port: Port, node: str, types: Mapping[tuple[str, str], object]) -> Socket:
    inferred = types.get((node, port.name))
    shown = port.type if inferred is None or str(inferred) == "unknown" else str(inferred)
    return Socket(type=shown, doc=port.doc)


def _workflow(path: Path, tree: Tree, base: Reading, options: Options) -> Reading:
    workflow = parse_workflow(tree, {}, Report())
    chain = Chain(paths=(path.resolve(),), names=())
    parts = {}
    for name, stage in workflow.stages.items():
        opened = open_spec(stage.program, ("program", "workflow"), chain, base.sources, Report())
        whole: ProgramSpec | WorkflowSpec | None = None
        if opened is not None:
            parse = parse_program if opened[1] == "program" else parse_workflow
            whole = parse(opened[2], {}, Report())
        parts[name] = _stage(stage.program.text, whole)
    return Reading(
        name=base.name,
        kind=base.kind,
        report=base.report,
        sources=base.sources,
        library=options.library,
        tree=tree,
        workflow=workflow,
        parts=parts,
    )


def _stage(file: str, whole: ProgramSpec | WorkflowSpec | None) -> Part:
    if whole is None:
        return Part(what=f"stage {file}")
    inputs = {name: Socket(type=port.type.text, doc=port.help) for name, port in whole.inputs.items()}
    return Part(
        what=f"stage {file}", doc=whole.title, inputs=inputs, outputs={name: Socket(type="") for name in whole.outputs}
    )
