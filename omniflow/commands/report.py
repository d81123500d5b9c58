"""`omniflow run --report`: what a schedule predicted of its nodes against what a run measured."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from omniflow_compiler.account_text import show_seconds
from omniflow_compiler.schedule import Node, Schedule

MOST_DRIFT = 2.0  # beyond this factor either way, predictions of this machine are of no use


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One kind of unit of one node: how many and how long each, as declared and as measured."""

    node: str
    expert: str
    kind: str
    declared_units: int
    units: int
    declared_seconds: float
    seconds: float

    @property
    def drift(self) -> float:
        """Measured over declared seconds of a unit."""
        return self.seconds / self.declared_seconds

    @property
    def has_drifted(self) -> bool:
        """Whether that is more than twice or less than half."""
        return not 1 / MOST_DRIFT <= self.drift <= MOST_DRIFT


def compare(schedule: Schedule, record: Mapping[str, Any]) -> list[Row]:
    """A row for every kind of unit that ran; ops are left out, whose units take microseconds."""
    return [
        row
        for node in schedule.nodes
        if node.kind == "loop" and node.id in record["nodes"]
        for row in _rows(node, record["nodes"][node.id]["spent"])
    ]


def _rows(node: Node, spent: list[Mapping[str, Any]]) -> Iterator[Row]:
    declared = {(unit.expert or node.expert or "", unit.kind): unit for unit in node.units}
    for found in spent:
        unit = declared.get((found["expert"], found["kind"]))
        if unit is not None and unit.seconds > 0 and found["units"]:
            yield Row(
                node=node.id,
                expert=found["expert"],
                kind=found["kind"],
                declared_units=unit.expected,
                units=found["units"],
                declared_seconds=unit.seconds,
                seconds=found["seconds"] / found["units"],
            )


def show(rows: list[Row], program: str) -> str:
    """The rows as a table, and what to do when predictions are off."""
    heads = ("node", "expert", "unit", "units", "declared", "s/unit", "declared", "drift")
    table = [heads, *(_cells(row) for row in rows)]
    widths = [max(len(cells[i]) for cells in table) for i in range(len(heads))]
    lines = ["  ".join(cell.ljust(width) for cell, width in zip(cells, widths, strict=True)) for cells in table]
    drifted = sum(row.has_drifted for row in rows)
    if drifted:
        many = "kind of unit takes" if drifted == 1 else "kinds of units take"
        lines.append(
            f"{drifted} {many} more than twice or less than half of what was predicted: omniflow calibrate {program}"
        )
    return "\n".join(line.rstrip() for line in lines)


def _cells(row: Row) -> tuple[str, ...]:
    mark = " !" if row.has_drifted else ""
    return (
        row.node, row.expert, row.kind, str(row.units), str(row.declared_units), show_seconds(row.seconds),
        show_seconds(row.declared_seconds), f"x{row.drift:.2f}{mark}",
    )  # fmt: skip
