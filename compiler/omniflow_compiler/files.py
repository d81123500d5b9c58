"""Opens the files that specs name: relative paths inside the project, never twice on one path of inclusion."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, field, replace
from pathlib import Path

from omniflow_compiler import codes
from omniflow_compiler.diagnostics import Label, Report
from omniflow_compiler.load.document import read_document
from omniflow_compiler.load.tree import Mapping
from omniflow_compiler.parse.kind import kind_of
from omniflow_compiler.reads import note_file
from omniflow_compiler.source import SourceSet
from omniflow_compiler.spec import Name, ProgramSpec

MAX_DEPTH = 32


@dataclass(slots=True, kw_only=True)
class Opened:
    """What one compilation has opened: files that name two others each stand for ever more, level by level."""

    graphs: dict[Hashable, ProgramSpec | None] = field(default_factory=dict)  # those that are ready, by what they hold
    has_too_many_nodes: bool = False
    num_stages: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Chain:
    """The files that are open: each with the place that named it, outermost first."""

    paths: tuple[Path, ...]
    names: tuple[Name, ...]
    opened: Opened = field(default_factory=Opened)

    def then(self, path: Path, name: Name) -> Chain:
        return replace(self, paths=(*self.paths, path), names=(*self.names, name))


def open_spec(
    name: Name, kinds: tuple[str, ...], chain: Chain, sources: SourceSet, report: Report
) -> tuple[Path, str, Mapping] | None:
    """The named file's path, kind and document; None with the reason in the report."""
    here = chain.paths[-1]
    path = (here.parent / name.text).resolve()
    if Path(name.text).is_absolute() or not path.is_relative_to(sources.root):
        help = [f"files are named by a relative path inside `{sources.root.name}`"]
        report.add(codes.OUTSIDE, name.span, f"`{name.text}` is outside the project", help=help)
        return None
    note_file(here.parent / name.text)
    if not path.is_file():
        report.add(
            codes.UNREADABLE, name.span, f"there is no file `{name.text}`", help=["the path is relative to this file"]
        )
        return None
    if path in chain.paths or len(chain.paths) > MAX_DEPTH:
        _report_cycle(path, name, chain, sources, report)
        return None
    document = read_document(path, sources, report)
    kind = None if document is None else kind_of(document[1], report)
    if document is None or kind is None:
        return None
    sources.included_from.setdefault(document[0].name, name.span)
    if kind not in kinds:
        report.add(codes.KIND, name.span, f"`{name.text}` is a {kind}, a {' or a '.join(kinds)} is needed here")
        return None
    return path, kind, document[1]


def _report_cycle(path: Path, name: Name, chain: Chain, sources: SourceSet, report: Report) -> None:
    start = chain.paths.index(path) if path in chain.paths else 0
    shown = [sources.name_of(p) for p in (*chain.paths[start:], path)]
    report.add(
        codes.INCLUDE_CYCLE,
        name.span,
        f"files include each other: {' -> '.join(shown)}",
        labels=[Label(span=n.span, text="and this one") for n in chain.names[start:]][:6],
        help=["remove one of them"],
    )
