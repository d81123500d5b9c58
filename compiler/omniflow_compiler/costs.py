"""Measured costs: `costs.json` beside a card has what `omniflow calibrate` measured of its components on this machine.

    {"omniflow": 1, "kind": "costs", "format": 1, "cards": {CARD: {COMPONENT: {
        "use": EXPERT, "dtype": ..., "device": ..., "parameters": N,
        "units": {KIND: {"seconds": S, "count": N, "widths": {"1": S, "8": S}}}}}}}

`seconds` is what one unit takes while one request runs alone; `widths` what one takes in a batch of so many.
They hold only for the expert, dtype, device and number of parameters that they were measured with.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from omniflow_compiler import codes
from omniflow_compiler.diagnostics import Report
from omniflow_compiler.load.text import read_source
from omniflow_compiler.reads import note_file
from omniflow_compiler.source import SourceSet, Span

FILE_NAME = "costs.json"
FORMAT = 1
MAX_ENTRIES = 10_000


class CostsError(ValueError):
    """A file that does not have the documented shape; the message says where."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """What was measured of one component: seconds of one unit by kind, and with what."""

    use: str
    dtype: str
    device: str
    parameters: int
    seconds: Mapping[str, float]

    def holds_for(self, *, use: str, dtype: str, device: str, parameters: int) -> bool:
        """Whether it was measured with just that."""
        return (self.use, self.dtype, self.device, self.parameters) == (use, dtype, device, parameters)


def costs_path(card: Path) -> Path:
    """Where a card's measured costs are."""
    return card.with_name(FILE_NAME)


def read_costs(card: Path, card_id: str, sources: SourceSet, report: Report) -> Mapping[str, Measured]:
    """By component what was measured of a card; nothing when nothing was, or when the file cannot be used."""
    path = costs_path(card)
    if not path.is_file():
        note_file(path)  # one that appears later changes the result
        return {}
    source = read_source(path, sources, report)
    if source is None:
        return {}
    try:
        return parse_costs(source.text, card_id)
    except CostsError as error:
        help = ["measure again with `omniflow calibrate`, or remove the file"]
        report.add(codes.COSTS, Span(source.name, 1, 1, 1, 2), f"measured costs are not used: {error}", help=help)
        return {}


def parse_costs(text: str, card_id: str) -> dict[str, Measured]:
    """By component what a text says of a card. Errors: CostsError."""
    entries = parse_file(text)["cards"].get(card_id, {})
    _need(isinstance(entries, dict) and len(entries) <= MAX_ENTRIES, f"`{card_id}` is no mapping of components")
    return {name: _measured(name, entry) for name, entry in entries.items()}


def parse_file(text: str) -> dict[str, Any]:
    """The whole file. Errors: CostsError."""
    try:
        body = json.loads(text)
    except (ValueError, RecursionError):
        raise CostsError("it is no JSON") from None
    _need(isinstance(body, dict) and body.get("kind") == "costs", "its `kind` is not `costs`")
    _need(body.get("format") == FORMAT, f"its format is not {FORMAT}")
    _need(isinstance(body.get("cards"), dict), "it has no `cards`")
    found: dict[str, Any] = body
    return found


def _measured(name: str, entry: Any) -> Measured:
    _need(isinstance(entry, dict) and isinstance(entry.get("units"), dict), f"`{name}` has no `units`")
    texts = [entry.get(key) for key in ("use", "dtype", "device")]
    _need(all(isinstance(text, str) for text in texts), f"`{name}` does not say use, dtype and device")
    _need(isinstance(entry.get("parameters"), int), f"`{name}` does not say `parameters`")
    seconds = {kind: _seconds(f"`{name}` {kind}", unit) for kind, unit in entry["units"].items()}
    return Measured(
        use=entry["use"], dtype=entry["dtype"], device=entry["device"], parameters=entry["parameters"], seconds=seconds
    )


def _seconds(where: str, unit: Any) -> float:
    seconds: Any = unit.get("seconds") if isinstance(unit, dict) else None
    is_number = isinstance(seconds, int | float) and not isinstance(seconds, bool)
    _need(is_number and math.isfinite(seconds) and seconds > 0, f"{where}: `seconds` is no number above 0")
    return float(seconds)


def _need(holds: bool, problem: str) -> None:
    if not holds:
        raise CostsError(problem)
