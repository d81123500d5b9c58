"""Finds numbers of a request that decide how much memory it needs while nothing says how large they may be."""

from __future__ import annotations

from omniflow_compiler import codes
from omniflow_compiler.diagnostics import Label, Report
from omniflow_compiler.graph import ProgramGraph
from omniflow_compiler.limits import ranges_of_inputs
from omniflow_compiler.passes.caps import sizing


def check_limited(graph: ProgramGraph, report: Report) -> None:
    """Reports each such input once, with the first node that it sizes."""
    ranges = ranges_of_inputs(graph)
    found = {edge.spec.source.port: edge for node in graph.nodes.values() for edge in sizing(node, graph)}
    for name, edge in found.items():
        if name in ranges and ranges[name].most is None:
            spec = graph.program.inputs[name]
            message = f"input `{name}` decides how much memory `{edge.target_node}` needs, and may be of any size"
            labels = [Label(span=edge.spec.span, text="sizes what the node gives")]
            help = ["add `max: ...`: a request with more is refused, and the plan counts on it"]
            report.add(codes.UNLIMITED, spec.name.span, message, labels=labels, help=help)
