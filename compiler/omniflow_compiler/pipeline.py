"""The compiler from top to bottom: load, parse, expand, resolve, build, types, structure, streams, prune, plan, lower.

Every stage reports all faults it finds and passes on what is sound, so one run shows everything that is wrong with a
file; only what could not be read at all ends the run early.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from omniflow_compiler import codes
from omniflow_compiler.build import build_graph
from omniflow_compiler.cards import check_twins, sibling_programs
from omniflow_compiler.config import Config, command_line, parse_config, place_components, read_config
from omniflow_compiler.diagnostics import Report
from omniflow_compiler.expand import expand_graphs
from omniflow_compiler.faults import check_faults
from omniflow_compiler.files import Chain
from omniflow_compiler.graph import ProgramGraph
from omniflow_compiler.include import read_card
from omniflow_compiler.levels import Levels
from omniflow_compiler.library.library import BUILT_IN, Library
from omniflow_compiler.lints import check_use
from omniflow_compiler.load.collection import without_collection
from omniflow_compiler.load.document import read_document
from omniflow_compiler.load.tree import Mapping as Tree
from omniflow_compiler.load.tree import Scalar
from omniflow_compiler.lower import lower
from omniflow_compiler.names import unknown
from omniflow_compiler.parse.kind import kind_of
from omniflow_compiler.parse.program import parse_program
from omniflow_compiler.passes.bounds import check_bounds, check_card_bounds
from omniflow_compiler.passes.branches import Branches, check_branches, without_branches
from omniflow_compiler.passes.budget import check_budget
from omniflow_compiler.passes.capabilities import reached_capabilities
from omniflow_compiler.passes.guidance import check_guidance
from omniflow_compiler.passes.handed import check_handed
from omniflow_compiler.passes.plan import Plan, plan_run
from omniflow_compiler.passes.prune import needed_nodes, requested_outputs
from omniflow_compiler.passes.quantized import check_quantized
from omniflow_compiler.passes.sessions import check_sessions
from omniflow_compiler.passes.streams import check_streams
from omniflow_compiler.passes.structure import CUT_OFF, check_structure
from omniflow_compiler.passes.transfers import check_transfers
from omniflow_compiler.passes.types import Types, infer_types
from omniflow_compiler.passes.unlimited import check_limited
from omniflow_compiler.passes.unread import check_read
from omniflow_compiler.resolve import resolve_components, resolve_loops, resolve_nodes
from omniflow_compiler.schedule import Schedule
from omniflow_compiler.source import SourceSet
from omniflow_compiler.spec import CardSpec, Name, ProgramSpec
from omniflow_compiler.workflow import Whole, read_program, read_workflow


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """What the command line says: outputs to keep, values of params, devices (by component, or `default`), memory per
    device, a run configuration that these override, the library of names.
    """

    outputs: Sequence[str] | None = None
    params: Mapping[str, str] = field(default_factory=dict)
    devices: Mapping[str, str] = field(default_factory=dict)
    budgets: Mapping[str, int] = field(default_factory=dict)
    config: Path | None = None
    library: Library = BUILT_IN
    deny: Collection[str] = ()  # codes of lints, or `warnings` for all of them
    is_check: bool = False  # whether only the findings are asked for: what finds nothing is left out


@dataclass(frozen=True, slots=True, kw_only=True)
class Compilation:
    """Everything one run of the compiler found out. `schedule` is there when there was no error in a program."""

    report: Report
    sources: SourceSet
    kind: str | None = None
    graph: ProgramGraph | None = None
    types: Types | None = None
    plan: Plan | None = None
    schedule: Schedule | None = None


def compile_file(path: Path, options: Options) -> Compilation:
    """Compiles a spec of any kind. Faults are in the report; nothing is raised for what an author wrote."""
    path = path.absolute()
    report, sources = Report(levels=Levels(denied=frozenset(options.deny))), SourceSet(path.parent.parent.resolve())
    with without_collection():
        compilation = _compile_document(path, sources, options, report)
        if not report.num_errors:
            _check_suppressions(sources.name_of(path), report)
        return compilation


def _compile_document(path: Path, sources: SourceSet, options: Options, report: Report) -> Compilation:
    document = read_document(path, sources, report)
    kind = kind_of(document[1], report) if document is not None else None
    if document is None or kind is None:
        return Compilation(report=report, sources=sources)
    config = Config() if options.config is None else read_config(options.config, sources, report)
    overrides = {**config.params, **command_line(options.params)}
    if kind == "card":
        return _check_card(path, document[1], overrides, sources, options, report)
    if kind == "graph":
        return _check_graph(path, document[1], overrides, sources, report)
    if kind == "config":
        parse_config(document[1], report)
        return Compilation(report=report, sources=sources, kind=kind)
    whole: Whole | None = None
    if kind == "workflow":
        whole = read_workflow(path, document[1], overrides, sources, report)
    else:
        whole = read_program(path, document[1], overrides, sources, report)
    if whole is None:
        return Compilation(report=report, sources=sources, kind=kind)
    if kind == "program":
        check_twins(path, whole.program.id, sources, report)
    _check_params(overrides, whole.card.params, whole.program.params, report)
    card = place_components(whole.card, config, options.devices, report)
    is_check = options.is_check and not config.faults  # these name edges of the schedule
    options = replace(options, budgets={**config.budgets, **options.budgets}, is_check=is_check)
    compilation = _compile(replace(whole, card=card), path, kind, sources, options, report)
    if compilation.schedule is not None:
        check_faults(config.faults, compilation.schedule, config.unit_seconds, report)
    return compilation if not report.num_errors else replace(compilation, schedule=None)


def _check_suppressions(name: str, report: Report) -> None:
    """A comment that silences nothing hides the next fault on its line; only a file that is sound is sure of that."""
    for found in list(report.levels.unused(name)):
        message = f"nothing on line {found.line} has a finding `{found.code}` to silence"
        report.add(codes.UNUSED_SUPPRESSION, found.span, message, help=["remove the comment"])


def _compile(whole: Whole, path: Path, kind: str, sources: SourceSet, options: Options, report: Report) -> Compilation:
    """From a whole program to its schedule."""
    analysis = _analyse(whole.program, whole.card, options, report)
    if analysis is None:
        return Compilation(report=report, sources=sources, kind=kind)
    graph, types, branches = analysis
    if whole.card_path is not None:
        _check_capabilities(whole.card, reached_capabilities(graph, types), whole.card_path, path, options, report)
        check_use(whole.card, whole.program, whole.card_path, path, sources, report)
    outputs = requested_outputs(graph, options.outputs, branches.off, report)
    compilation = Compilation(report=report, sources=sources, kind=kind, graph=graph, types=types)
    if report.num_errors > 0 or (options.is_check and not options.budgets):
        return compilation
    if branches.on or branches.off:
        graph = without_branches(graph, branches)
        types = infer_types(graph, Report())
    plan = plan_run(graph, types, needed_nodes(graph, outputs), options.budgets)
    check_budget(plan, graph, report)
    schedule = None if report.num_errors > 0 or options.is_check else lower(graph, types, plan, outputs)
    return replace(compilation, graph=graph, types=types, plan=plan, schedule=schedule)


def _check_card(
    path: Path, tree: Tree, overrides: Mapping[str, Scalar], sources: SourceSet, options: Options, report: Report
) -> Compilation:
    card = read_card(path, tree, overrides, sources, report)
    components = resolve_components(card, options.library, report)
    loops = resolve_loops(card, components, options.library, report)
    check_card_bounds(loops, card.loops, report)
    _check_params(overrides, card.params, {}, report)
    _check_capabilities(card, set(), path, path, options, report)
    check_use(card, None, path, path, sources, report)
    return Compilation(report=report, sources=sources, kind="card")


def _check_graph(
    path: Path, tree: Tree, overrides: Mapping[str, Scalar], sources: SourceSet, report: Report
) -> Compilation:
    """What can be said of a graph without the program that uses it: its own form and its edges' form."""
    graph = parse_program(tree, overrides, report, kind="graph")
    expand_graphs(graph, Chain(paths=(path.resolve(),), names=()), sources, report)
    return Compilation(report=report, sources=sources, kind="graph")


def _analyse(
    program: ProgramSpec, card: CardSpec, options: Options, report: Report
) -> tuple[ProgramGraph, Types, Branches] | None:
    """Everything that is known of the graph before anything is planned; None when parts of it could not be read."""
    components = resolve_components(card, options.library, report)
    loops = resolve_loops(card, components, options.library, report)
    nodes = resolve_nodes(program, loops, card, components, options.library, report)
    if not program.is_whole or report.is_full:
        return None
    graph = build_graph(program, card, components, nodes, report)
    check_structure(graph, report)
    check_bounds(graph, report)
    branches = check_branches(graph, report)
    types = infer_types(graph, report)
    check_streams(graph, types, report)
    check_guidance(graph, report)
    check_sessions(graph, report)
    check_quantized(graph, report)
    check_handed(graph, report)
    check_transfers(graph, types, report)
    check_limited(graph, report)
    check_read(graph, report)
    return graph, types, branches


def _check_params(
    overrides: Mapping[str, Scalar], card: Mapping[str, object], program: Mapping[str, object], report: Report
) -> None:
    known = {**card, **program}
    for name, value in overrides.items():
        if name not in known:
            unknown(report, codes.UNKNOWN_PARAM, Name(text=name, span=value.span), known, "param")


def _check_capabilities(
    card: CardSpec, reached: set[str], card_path: Path, path: Path, options: Options, report: Report
) -> None:
    """Each declared capability must be reached by this program or by another one beside the card."""
    missing = [name for name in card.capabilities if name.text not in reached]
    if not missing or report.has(*CUT_OFF, codes.UNREACHABLE_OUTPUT, codes.BASE_MISMATCH):
        return  # what is wrong with this program may be why it does not reach one
    for sibling in sibling_programs(card_path, card, path):
        reached |= _reached_by(sibling, card, card_path, options)
    for name in missing:
        if name.text not in reached and not report.has_unresolved_names:
            report.add(
                codes.CAPABILITY,
                name.span,
                f"capability `{name.text}` is declared, but no program of card `{card.id.text}` reaches it",
                help=["remove it, or write a program whose outputs reach it"],
            )


def _reached_by(path: Path, card: CardSpec, card_path: Path, options: Options) -> set[str]:
    """What a program beside the card reaches; its own faults are not this file's."""
    report, sources = Report(), SourceSet(card_path.parent.parent.resolve())
    document = read_document(path, sources, report)
    if document is None:
        return set()
    program = parse_program(document[1], {}, report)
    program = expand_graphs(program, Chain(paths=(path.resolve(),), names=()), sources, report)
    analysis = _analyse(program, card, options, report)
    return set() if analysis is None else reached_capabilities(*analysis[:2])
