"""Refuses a plan that needs more memory than its device has, with the largest holders at the peak."""

from __future__ import annotations

from omniflow_compiler import codes
from omniflow_compiler.diagnostics import Label, Report
from omniflow_compiler.graph import ProgramGraph
from omniflow_compiler.passes.plan import Plan
from omniflow_compiler.quantities import show_bytes


def check_budget(plan: Plan, graph: ProgramGraph, report: Report) -> None:
    """Reports each device over its budget."""
    for memory in plan.memory:
        if memory.budget_bytes is None or memory.peak_bytes <= memory.budget_bytes:
            continue
        table = "; ".join(f"{h.kind} {h.name} {show_bytes(h.bytes)}" for h in memory.holders[:6])
        labels = []
        for holder in memory.holders[:3]:
            component = graph.components.get(holder.name)
            if holder.kind == "weights" and component is not None:
                labels.append(Label(span=component.spec.name.span, text=f"weights of {show_bytes(holder.bytes)}"))
            elif holder.kind == "cache" and holder.name in graph.card.caches:
                labels.append(
                    Label(span=graph.card.caches[holder.name].name.span, text=f"cache of {show_bytes(holder.bytes)}")
                )
        report.add(
            codes.OVER_BUDGET,
            graph.program.id.span,
            f"{memory.device} needs {show_bytes(memory.peak_bytes)}, its budget is {show_bytes(memory.budget_bytes)}",
            labels=labels,
            help=[f"largest at the peak: {table}", "use a smaller dtype or cache, or request fewer outputs"],
        )
