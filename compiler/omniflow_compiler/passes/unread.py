"""Finds nodes and program inputs that nothing reads, once everything that explains them otherwise is known."""

from __future__ import annotations

from collections.abc import Iterator

from omniflow_compiler import codes
from omniflow_compiler.diagnostics import Report
from omniflow_compiler.graph import ProgramGraph
from omniflow_compiler.library.signature import Port
from omniflow_compiler.meant import Meant, what_is_meant


def check_read(graph: ProgramGraph, report: Report) -> None:
    """Reports what nothing reads, but not what a port that was reported as unfed or wrongly fed waits for."""
    meant = what_is_meant(graph.program, graph.nodes)
    waiting = [port.pattern.base for port in _waiting(graph, meant, report)]
    for node in graph.nodes.values():
        if not node.is_known or node.id in meant.read:
            continue
        if not _is_waited_for({port.pattern.base for port in node.outputs.values()}, waiting):
            help = ["connect one of its outputs to a node or a program output, or remove it"]
            report.add(codes.FEEDS_NOTHING, node.span, f"node `{_name(node.id)}` feeds nothing", help=help)
    conditions = " ".join(str(node.when.value) for node in graph.program.nodes.values() if node.when is not None)
    for name, spec in graph.program.inputs.items():
        if name in meant.inputs or f"inputs.{name}" in conditions:
            continue
        if not _is_waited_for({graph.inputs[name].base}, waiting):
            help = ["connect it or remove it"]
            report.add(codes.UNUSED_INPUT, spec.name.span, f"program input `{name}` is never read", help=help)


def _name(node: str) -> str:
    """The id as its own file has it."""
    return node.rpartition("/")[2]


def _is_waited_for(bases: set[str], waiting: list[str]) -> bool:
    """Takes one port that waits for a value of these bases off the list, if there is one."""
    for base in waiting:
        if base in bases or base.startswith("?"):
            waiting.remove(base)
            return True
    return False


def _waiting(graph: ProgramGraph, meant: Meant, report: Report) -> Iterator[Port]:
    """Ports that nothing feeds, and those of which was reported that what feeds them does not fit."""
    wrong = {found.span for found in report if found.code.startswith("OF21")}
    unguided = {found.span for found in report if found.code == codes.GUIDANCE.id}
    for node in graph.nodes.values():
        fed = {edge.spec.target.port for edge in graph.incoming[node.id]}
        is_connected = bool(fed) or node.id in meant.read
        for port in node.inputs.values():
            if is_connected and port.name not in fed and (port.required or node.span in unguided):
                yield port
        for edge in graph.incoming[node.id]:
            if edge.target_port is not None and edge.spec.source.span in wrong:
                yield edge.target_port
