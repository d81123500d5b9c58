"""Faults on purpose, as a run configuration of profile `test` writes them, held against the schedule they strike."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from omniflow_compiler import codes
from omniflow_compiler.diagnostics import Report
from omniflow_compiler.load.tree import Mapping, Scalar, Sequence
from omniflow_compiler.names import unknown
from omniflow_compiler.schedule import Schedule
from omniflow_compiler.source import Span
from omniflow_compiler.spec import Name
from omniflow_compiler.suggest import did_you_mean

TEST = "test"  # the profile that faults are for
ON_NODES = frozenset({"raise", "nan", "hang", "wrong_shape", "oom"})
ON_EDGES = frozenset({"drop", "delay", "duplicate", "empty", "error"})


@dataclass(frozen=True, slots=True, kw_only=True)
class FaultSpec:
    """One fault: `do` at unit `number` of a node, or at chunk `number` of an edge; `request` None strikes all."""

    at: Name
    is_edge: bool
    do: Name
    number: int
    request: int | None
    span: Span


def parse_faults(tree: Mapping, report: Report) -> tuple[FaultSpec, ...]:
    """The faults of a configuration that fits its schema."""
    section = tree.get("faults")
    entries = [item for item in section.items if isinstance(item, Mapping)] if isinstance(section, Sequence) else []
    profile = tree.get("profile")
    if entries and not (isinstance(profile, Scalar) and profile.value == TEST):
        span = profile.span if isinstance(profile, Scalar) else tree.entries["faults"].key
        now = f"for profile `{profile.value}`" if isinstance(profile, Scalar) else "without a profile"
        help = [f"write `profile: {TEST}`, or leave `faults` out: nothing is to go wrong on purpose for users"]
        report.add(codes.FAULTS, span, f"faults are written {now}", help=help)
        return ()
    return tuple(fault for entry in entries for fault in _parse(entry, report))


def _parse(entry: Mapping, report: Report) -> Iterator[FaultSpec]:
    given = {key: value.value for key, value in entry.entries.items() if isinstance(value.value, Scalar)}
    is_edge = "edge" in given
    at, do, number = given["edge" if is_edge else "node"], given["do"], given.get("chunk" if is_edge else "unit")
    wrong = [key for key in (("node", "unit") if is_edge else ("chunk",)) if key in given]
    for key in wrong:
        what, instead = ("an edge", "chunk") if is_edge else ("a node", "unit")
        report.add(codes.BAD_VALUE, entry.entries[key].key, f"a fault at {what} has no `{key}`", help=[
            f"its pieces go by `{instead}`" if key != "node" else "write one fault for the node and one for the edge"
        ])  # fmt: skip
    allowed = ON_EDGES if is_edge else ON_NODES
    if do.value not in allowed:
        message = f"`{do.value}` cannot be done to {'an edge' if is_edge else 'a node'}"
        report.add(codes.BAD_VALUE, do.span, message, help=[f"it can be {', '.join(sorted(allowed))}"])
    elif not wrong:
        request = given.get("request")
        yield FaultSpec(
            at=Name(text=str(at.value), span=at.span),
            is_edge=is_edge,
            do=Name(text=str(do.value), span=do.span),
            number=_int(number) or 0,
            request=_int(request),
            span=entry.span,
        )


def _int(written: Scalar | None) -> int | None:
    return written.value if written is not None and isinstance(written.value, int) else None


def find_edge(text: str, schedule: Schedule) -> str | None:
    """The channel that an edge's text names, however it is spaced."""
    wanted = _plain(text)
    return next((channel.id for channel in schedule.channels if _plain(channel.id) == wanted), None)


def _plain(edge: str) -> str:
    return re.sub(r"\s+", "", edge)


def check_faults(faults: Iterable[FaultSpec], schedule: Schedule, unit_seconds: float | None, report: Report) -> None:
    """Each fault must name something that runs, and a hang something that ends it."""
    nodes = {node.id: node for node in schedule.nodes}
    edges = {channel.id: channel for channel in schedule.channels}
    for fault in faults:
        if fault.is_edge:
            found = find_edge(fault.at.text, schedule)
            if found is None:
                help = did_you_mean(fault.at.text, edges, "edge")
                message = f"{schedule.program} has no edge `{fault.at.text}`"
                report.add(codes.BAD_VALUE, fault.at.span, message, help=help)
            elif "." not in edges[found].source:
                message = f"`{fault.at.text}` begins at an input, which is whole before anything runs"
                report.add(codes.BAD_VALUE, fault.at.span, message, help=["name an edge that begins at a node"])
        elif fault.at.text not in nodes:
            unknown(report, codes.UNKNOWN_NODE, fault.at, nodes, "node")
        if fault.do.text == "hang" and unit_seconds is None:
            help = ["write `unit_seconds: 5`: how long one call of an expert may take"]
            report.add(
                codes.MISSING_KEY, fault.do.span, "a hang needs `unit_seconds`, or it would never end", help=help
            )
