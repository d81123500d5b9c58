"""Keeps what the requested outputs need and nothing else."""

from __future__ import annotations

from collections.abc import Sequence

from omniflow_compiler import codes
from omniflow_compiler.diagnostics import Report
from omniflow_compiler.graph import ProgramGraph
from omniflow_compiler.params import COMMAND_LINE
from omniflow_compiler.suggest import did_you_mean


def requested_outputs(graph: ProgramGraph, names: Sequence[str] | None, report: Report) -> list[str]:
    """The outputs asked for, in the program's order; all of them when none are named."""
    known = graph.program.outputs
    for name in names or ():
        if name not in known:
            help = did_you_mean(name, known, "output")
            report.add(codes.UNKNOWN_OUTPUT, COMMAND_LINE, f"unknown output `{name}`", help=help)
    return [name for name in sorted(known) if names is None or name in names]


def needed_nodes(graph: ProgramGraph, outputs: Sequence[str]) -> set[str]:
    """The nodes that the outputs depend on."""
    stack = [node for name in outputs if (node := graph.program.outputs[name].ref.node) is not None]
    needed = set(stack)
    while stack:
        for edge in graph.incoming[stack.pop()]:
            if edge.source_node is not None and edge.source_node not in needed:
                needed.add(edge.source_node)
                stack.append(edge.source_node)
    return needed
