"""Lints that look beyond one program: at its card, and at the other programs of that card."""

from __future__ import annotations

from pathlib import Path

from omniflow_compiler.cards import sibling_programs
from omniflow_compiler.diagnostics import Report
from omniflow_compiler.expand import expand_graphs
from omniflow_compiler.files import Chain
from omniflow_compiler.load.document import read_document
from omniflow_compiler.parse.program import parse_program
from omniflow_compiler.passes.unused import Uses, check_unused, check_unused_params, is_all_used, unread, uses_of
from omniflow_compiler.source import SourceSet
from omniflow_compiler.spec import CardSpec, ProgramSpec


def check_use(
    card: CardSpec, program: ProgramSpec | None, card_path: Path, path: Path, sources: SourceSet, report: Report
) -> None:
    """Reports what nothing uses. Other programs are read only when this one leaves something over."""
    if report.num_errors:
        return  # what is wrong may be why something is not used
    uses = Uses(loops=frozenset(), components=frozenset()) if program is None else uses_of(program)
    texts = [source.text for source in sources.sources.values()]
    if program is not None:
        check_unused_params(program.declared, texts, report)
    if is_all_used(card, uses) and not unread(card.declared, texts):
        check_unused(card, uses, report)
        return
    siblings = list(sibling_programs(card_path, card, path))
    for sibling in siblings:
        others = SourceSet(sources.root)
        uses |= _uses(sibling, others)
        texts += [source.text for source in others.sources.values()]
    if program is not None or siblings:
        check_unused(card, uses, report)
    check_unused_params(card.declared, texts, report)


def _uses(path: Path, sources: SourceSet) -> Uses:
    """What a program uses; its own faults are not this file's."""
    document = read_document(path, sources, Report())
    if document is None:
        return Uses(loops=frozenset(), components=frozenset())
    program = parse_program(document[1], {}, Report())
    return uses_of(expand_graphs(program, Chain(paths=(path.resolve(),), names=()), sources, Report()))
