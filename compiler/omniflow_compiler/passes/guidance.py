"""Checks that a loop with guidance has the branch that guidance steers away from."""

from __future__ import annotations

from omniflow_compiler import codes
from omniflow_compiler.diagnostics import Label, Report
from omniflow_compiler.graph import Node, ProgramGraph

TOKENS = "ar_decode"


def check_guidance(graph: ProgramGraph, report: Report) -> None:
    """Reports loops whose guidance is on while nothing feeds their unconditional branch, or only a part of it."""
    for node in graph.nodes.values():
        if _is_beyond(node):
            _report_beyond(node, report)
        branch = _branch(node)
        if not branch:
            continue
        fed = {edge.spec.target.port for edge in graph.incoming[node.id]}
        wanted = [branch, *(f"{branch}_{port}" for port in node.inputs if f"{branch}_{port}" in node.inputs)]
        for port in wanted:
            if port not in fed:
                _report(node, port, report)


def _is_beyond(node: Node) -> bool:
    """Whether tokens are to be guided and their expert knows no other branch."""
    if node.loop is None or node.component is None or node.loop.kind != TOKENS:
        return False
    return node.attributes.get("cfg", 1.0) != 1.0 and TOKENS not in node.component.signature.guided


def _report_beyond(node: Node, report: Report) -> None:
    written = None if node.loop_spec is None else node.loop_spec.attributes.get("cfg")
    use = "" if node.component is None else node.component.signature.use
    report.add(
        codes.GUIDANCE,
        node.span if written is None else written.span,
        f"`{node.id}` is guided, and `{use}` has nothing that guidance could leave out",
        help=["set `cfg: 1`"],
    )


def _branch(node: Node) -> str | None:
    """The port of the unconditional branch, when guidance is on; empty when the expert makes it itself."""
    if node.loop is None or node.component is None:
        return None
    is_on = node.attributes.get("cfg", 1.0) != 1.0 or bool(node.attributes.get("guidance"))
    return node.component.signature.guided.get(node.loop.kind) if is_on else None


def _report(node: Node, port: str, report: Report) -> None:
    labels, off = [], "cfg: 1"
    if node.loop_spec is not None:
        for name in ("cfg", "guidance"):
            if name in node.loop_spec.attributes:
                labels.append(Label(span=node.loop_spec.attributes[name].span, text="guidance is on here"))
                off = "cfg: 1" if name == "cfg" else "guidance: 0"
    report.add(
        codes.GUIDANCE,
        node.span,
        f"`{node.id}` is guided, and nothing feeds `{node.id}.{port}`",
        labels=labels,
        help=[f"add an edge `... -> {node.id}.{port}` from what stands for no prompt, or set `{off}`"],
    )
