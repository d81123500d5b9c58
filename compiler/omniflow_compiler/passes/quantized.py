"""Checks that a card says how far weights in fewer bits may be from the same weights in full."""

from __future__ import annotations

from omniflow_compiler import codes
from omniflow_compiler.diagnostics import Report
from omniflow_compiler.graph import ProgramGraph

ATTRIBUTE = "quantize"


def check_quantized(graph: ProgramGraph, report: Report) -> None:
    """Reports components in use whose form `parity.quantized` of their own card does not name."""
    used = {each.spec.name.text: each for node in graph.nodes.values() for each in node.components}
    for name, component in used.items():
        written = component.spec.attributes.get(ATTRIBUTE)
        form = str(component.attributes.get(ATTRIBUTE, "none"))
        if written is not None and form != "none" and not graph.card.allows(name, form):
            report.add(
                codes.QUANTIZED,
                written.span,
                f"`{name}` is held in {form}, and its card says nowhere how far that may be from its full weights",
                help=[f"allow a loss in nats per token: `parity: {{quantized: {{{form}: 0.1}}}}`"],
            )
