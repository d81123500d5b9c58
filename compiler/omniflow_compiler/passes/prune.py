"""Keeps what the requested outputs need and nothing else."""

from __future__ import annotations

from collections.abc import Sequence, Set

from omniflow_compiler import codes
from omniflow_compiler.diagnostics import Label, Report
from omniflow_compiler.graph import ProgramGraph
from omniflow_compiler.params import COMMAND_LINE
from omniflow_compiler.suggest import did_you_mean


def requested_outputs(graph: ProgramGraph, names: Sequence[str] | None, off: Set[str], report: Report) -> list[str]:
    """The outputs asked for, in the program's order; all that a node gives which is not `off` when none are named."""
    known = graph.program.outputs
    for name in names or ():
        if name not in known:
            help = did_you_mean(name, known, "output")
            report.add(codes.UNKNOWN_OUTPUT, COMMAND_LINE, f"unknown output `{name}`", help=help)
        elif known[name].ref.node in off:
            _report_off(name, graph, report)
    given = [name for name in sorted(known) if known[name].ref.node not in off]
    if known and not given and names is None:
        _report_off(min(known), graph, report)
    return [name for name in given if names is None or name in names]


def _report_off(name: str, graph: ProgramGraph, report: Report) -> None:
    ref = graph.program.outputs[name].ref
    node = graph.nodes[ref.node or ""]
    when = node.spec.when if node.spec is not None else None
    text = "switched off here" if when is not None else "gets nothing: what feeds it is switched off"
    report.add(
        codes.SWITCHED_OFF,
        ref.span,
        f"output `{name}` is asked for, but node `{node.id}` never runs with these params",
        labels=[Label(span=node.span if when is None else when.span, text=text)],
        help=["set the param that switches it on, or ask for other outputs"],
    )


def needed_nodes(graph: ProgramGraph, outputs: Sequence[str]) -> set[str]:
    """The nodes that the outputs depend on."""
    stack = [node for name in outputs if (node := graph.program.outputs[name].ref.node) in graph.nodes and node]
    needed = set(stack)
    while stack:
        for edge in graph.incoming[stack.pop()]:
            if edge.source_node is not None and edge.source_node not in needed:
                needed.add(edge.source_node)
                stack.append(edge.source_node)
    return needed
