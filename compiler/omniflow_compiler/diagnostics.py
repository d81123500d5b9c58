"""Diagnostics are values: a code, a message, the place, second places and help. A `Report` collects them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace

from omniflow_compiler.codes import CODES, Code
from omniflow_compiler.levels import Level, Levels
from omniflow_compiler.source import Span


@dataclass(frozen=True, slots=True, kw_only=True)
class Label:
    """A second place that explains the first."""

    span: Span
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Edit:
    """A replacement of a range by a text; `safe` edits keep the meaning of the rest of the file."""

    span: Span
    text: str
    safe: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Diagnostic:
    """One finding. `message` stands alone; `note` is written under the underlined place; `help` says what to do."""

    code: str
    level: Level
    message: str
    span: Span
    note: str = ""
    labels: tuple[Label, ...] = ()
    help: tuple[str, ...] = ()
    edits: tuple[Edit, ...] = ()

    @property
    def sort_key(self) -> tuple[str, int, int, str, str]:
        return (self.span.file, self.span.line, self.span.column, self.code, self.message)


class Faults(Exception):
    """The compilation found errors; `report` has them all."""

    def __init__(self, report: Report) -> None:
        super().__init__("; ".join(f"{found.span}: {found.code} {found.message}" for found in report))
        self.report = report


MAX_FINDINGS = 1000
MAX_HELPED = 30
MAX_PLACES = 6
# A name that is not there is one mistake, however often it is used.
_ONE_CAUSE = frozenset(code for code in CODES if code.startswith("OF13") or code == "OF1201")


@dataclass(slots=True)
class Report:
    """All findings of one compilation, without repeats."""

    levels: Levels = field(default_factory=Levels)
    num_repeats: int = 0  # of findings that have one cause with another
    _found: dict[tuple[str, str, Span | None], Diagnostic] = field(default_factory=dict)

    def add(
        self,
        code: Code,
        span: Span,
        message: str,
        *,
        note: str = "",
        labels: Iterable[Label] = (),
        help: Iterable[str] = (),
        edits: Iterable[Edit] = (),
    ) -> None:
        """Records a finding at the level that its code has at that place; silenced ones are dropped."""
        level = self.levels.of(code, span)
        if level is None:
            return
        if self.is_full and (code.id not in _ONE_CAUSE or (code.id, message, None) not in self._found):
            return
        key = (code.id, message, None if code.id in _ONE_CAUSE else span)
        known = self._found.get(key)
        self.num_repeats += known is not None
        found = Diagnostic(
            code=code.id,
            level=level,
            message=message,
            span=span,
            note=note,
            labels=tuple(labels),
            help=tuple(help),
            edits=tuple(edits),
        )
        self._found[key] = found if known is None else _joined(known, found)

    def __iter__(self) -> Iterator[Diagnostic]:
        return iter(sorted(self._found.values(), key=lambda found: found.sort_key))

    def __len__(self) -> int:
        return len(self._found)

    @property
    def is_full(self) -> bool:
        """Whether further findings are dropped; nobody reads more, and whoever looks for them may stop."""
        return len(self._found) + self.num_repeats >= MAX_FINDINGS

    @property
    def is_crowded(self) -> bool:
        """Whether there are so many findings that nearest names, which take time, are no longer looked for."""
        return len(self._found) >= MAX_HELPED

    def known(self, code: Code, message: str) -> Diagnostic | None:
        """The finding of that code and message, when it has one cause wherever it shows."""
        return self._found.get((code.id, message, None))

    @property
    def num_errors(self) -> int:
        return sum(found.level == "error" for found in self._found.values())

    @property
    def has_unresolved_names(self) -> bool:
        """Whether something could not be read or found, so that what depends on it is unknown."""
        return any(found.level == "error" and found.code < "OF2" for found in self._found.values())

    def has(self, *wanted: Code) -> bool:
        """Whether there is a finding of one of the codes."""
        ids = {code.id for code in wanted}
        return any(found.code in ids for found in self._found.values())

    def raise_if_errors(self) -> None:
        """Errors: Faults, when there is any finding of level error."""
        if self.num_errors:
            raise Faults(self)


def _joined(first: Diagnostic, second: Diagnostic) -> Diagnostic:
    """One finding of two that have one cause: the earlier place, the other as a second one."""
    if second.sort_key < first.sort_key:
        first, second = second, first
    known = {first.span, *(label.span for label in first.labels)}
    if second.span in known or len(first.edits) + len(second.edits) > MAX_FINDINGS:
        return first
    places = [second.span, *(label.span for label in second.labels)]
    labels = [*first.labels, *(Label(span=span, text="and here") for span in places if span not in known)]
    return replace(first, labels=tuple(labels[:MAX_PLACES]), edits=(*first.edits, *second.edits))


__all__ = ["CODES", "Diagnostic", "Edit", "Faults", "Label", "Level", "Report"]
