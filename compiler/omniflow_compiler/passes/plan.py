"""Plans the run: order, units and their cost, what overlaps, capacities, lifetimes, the memory peak of each device."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from omniflow_compiler.diagnostics import Report
from omniflow_compiler.graph import ProgramGraph
from omniflow_compiler.passes.bounds import Bounds, find_bounds
from omniflow_compiler.passes.lengths import Lengths, measure
from omniflow_compiler.passes.memory import MemoryPlan, plan_memory
from omniflow_compiler.passes.order import depths, topological_order
from omniflow_compiler.passes.timeline import Timeline, lay_out
from omniflow_compiler.passes.types import Types
from omniflow_compiler.passes.units import cost, expected_units
from omniflow_compiler.schedule import UnitTemplate


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """Everything about the run that does not depend on a request."""

    order: tuple[str, ...]
    depths: Mapping[str, int]
    bounds: Bounds
    lengths: Lengths
    units: Mapping[str, tuple[UnitTemplate, ...]]
    timeline: Timeline
    memory: MemoryPlan


def plan_run(graph: ProgramGraph, types: Types, needed: set[str], budgets: Mapping[str, int]) -> Plan:
    """The plan for the needed nodes of a sound graph; `budgets` has bytes per device where a limit was given."""
    order = tuple(topological_order(graph, needed))
    bounds = find_bounds(graph, order, Report())
    lengths = measure(graph, types, order, bounds.most)
    units = {name: expected_units(graph.nodes[name], graph, lengths, bounds.most) for name in order}
    costs = {name: cost(graph.nodes[name], units[name], lengths) for name in order}
    return Plan(
        order=order,
        depths=depths(graph, order),
        bounds=bounds,
        lengths=lengths,
        units=units,
        timeline=lay_out(graph, order, costs, lengths),
        memory=plan_memory(graph, types, order, lengths, bounds.most, budgets),
    )
