"""Diagnostics are values: a code, a message, the place, second places and help. A `Report` collects them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Literal

from omniflow_compiler.codes import CODES, Code
from omniflow_compiler.source import Span

Level = Literal["error", "warning"]


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


@dataclass(slots=True)
class Report:
    """All findings of one compilation, without repeats."""

    _found: dict[Diagnostic, None] = field(default_factory=dict)

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
        """Records a finding at its code's default level."""
        self._found[
            Diagnostic(
                code=code.id,
                level=code.level,
                message=message,
                span=span,
                note=note,
                labels=tuple(labels),
                help=tuple(help),
                edits=tuple(edits),
            )
        ] = None

    def __iter__(self) -> Iterator[Diagnostic]:
        return iter(sorted(self._found, key=lambda found: found.sort_key))

    def __len__(self) -> int:
        return len(self._found)

    @property
    def num_errors(self) -> int:
        return sum(found.level == "error" for found in self._found)

    @property
    def has_unresolved_names(self) -> bool:
        """Whether something could not be read or found, so that what depends on it is unknown."""
        return any(found.level == "error" and found.code < "OF2" for found in self._found)

    def replace(self, found: Iterable[Diagnostic]) -> None:
        """Puts other findings in place of all recorded ones (used when lint levels are applied)."""
        self._found = dict.fromkeys(found)

    def raise_if_errors(self) -> None:
        """Errors: Faults, when there is any finding of level error."""
        if self.num_errors:
            raise Faults(self)


__all__ = ["CODES", "Diagnostic", "Edit", "Faults", "Label", "Level", "Report"]
