"""Refuses a plan that needs more memory than its device has, with a table of the largest holders at the peak."""

from __future__ import annotations

from collections.abc import Iterator

from omniflow_compiler import codes
from omniflow_compiler.diagnostics import Label, Report
from omniflow_compiler.graph import ProgramGraph
from omniflow_compiler.passes.plan import Plan
from omniflow_compiler.quantities import show_bytes
from omniflow_compiler.schedule import Holder, Memory
from omniflow_compiler.source import Span


def check_budget(plan: Plan, graph: ProgramGraph, report: Report) -> None:
    """Reports each device over its budget."""
    for memory in plan.memory.devices:
        if memory.budget_bytes is None or memory.peak_bytes <= memory.budget_bytes:
            continue
        from omniflow_compiler.account_text import holder_table  # only what is over budget is shown

        over = show_bytes(memory.peak_bytes - memory.budget_bytes)
        head = f"{memory.device} needs {show_bytes(memory.peak_bytes)}, its budget is {show_bytes(memory.budget_bytes)}"
        report.add(
            codes.OVER_BUDGET,
            graph.program.id.span,
            "\n".join([f"{head} ({over} too much)", *holder_table(memory, indent=4)]),
            labels=list(_labels(memory, graph)),
            help=["use a smaller dtype or cache, move a component to another device, or request fewer outputs"],
        )


def _labels(memory: Memory, graph: ProgramGraph) -> Iterator[Label]:
    for holder in memory.holders[:3]:
        span = _declared(holder, graph)
        if span is not None and 10 * holder.bytes > memory.peak_bytes:
            yield Label(span=span, text=f"{show_bytes(holder.bytes)} of {holder.kind}")


def _declared(holder: Holder, graph: ProgramGraph) -> Span | None:
    if holder.kind == "weights":
        return graph.components[holder.name].spec.name.span
    if holder.kind == "cache":
        return graph.card.caches[holder.name].name.span
    if holder.kind == "state":
        return graph.nodes[holder.name].span
    return None
