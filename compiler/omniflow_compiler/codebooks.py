"""Loops over experts that choose a code of every codebook a step, and guided loops: what they need, what is wrong."""

from __future__ import annotations

from collections.abc import Mapping

from omniflow_compiler import codes
from omniflow_compiler.diagnostics import Label, Report
from omniflow_compiler.graph import Component
from omniflow_compiler.spec import LoopSpec

OF_SINGLE_IDS = ("stop", "stop_frame", "min_tokens", "repetition_penalty")


def lag_of(attributes: Mapping[str, object]) -> int:
    """Steps that a loop makes behind the first code of its last frame."""
    delays = attributes.get("delays")
    return max(delays) if isinstance(delays, tuple) and delays else 0


def sequences_of(attributes: Mapping[str, object]) -> int:
    """Sequences that a loop decodes for a request: guidance needs one more."""
    return 1 if attributes.get("cfg", 1.0) == 1.0 else 2


def check_delays(loop: LoopSpec, component: Component, attributes: Mapping[str, object], report: Report) -> None:
    """Reports delays that are missing, too many, or of an expert without codebooks, and what cannot go with them."""
    if "delays" not in attributes:
        return
    delays, size = attributes["delays"], component.signature.codebooks
    given = len(delays) if isinstance(delays, tuple) else 0
    wanted = component.sizes.get(size) if size else 0
    written, use = loop.attributes.get("delays"), component.signature.use
    at = loop.name.span if written is None else written.span
    labels = [Label(span=component.spec.use.span, text=f"`{use}` is declared here")]
    if wanted is not None and given != wanted:
        message = f"`delays` of loop `{loop.name.text}` has {given} numbers, `{use}` chooses {wanted} codes a step"
        help = [f"write one per codebook, e.g. `delays: {list(range(wanted))}`"] if wanted else ["leave `delays` out"]
        report.add(codes.BAD_VALUE, at, message, labels=labels, help=help)
    if not given:
        return
    for name in OF_SINGLE_IDS:
        other = loop.attributes.get(name)
        if other is not None:
            message = f"`{name}` of loop `{loop.name.text}` is of single ids, and with `delays` a step chooses {given}"
            report.add(codes.BAD_VALUE, other.span, message, help=[f"leave `{name}` out"])
    if loop.inner is not None:
        message = f"loop `{loop.name.text}` has `delays` and an inner loop; a frame is made by one of the two"
        report.add(codes.BAD_VALUE, loop.inner.loop.span, message, help=["leave `inner` or `delays` out"])
