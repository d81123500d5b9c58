"""Proves that decoders which work chunk by chunk lose nothing: samples out are frames in times hop.

A causal decoder of transposed convolutions (kernel 2s, stride s, the last s outputs cut off) gives `d` samples less
than frames * hop, with d <- d*s + s per layer: 8, 45, 184, 555 for strides 8, 5, 4, 3. Decoding a chunk by itself
loses them each time. They are not lost when every chunk comes with enough frames before it and its last new * hop
samples are kept: the window then ends `d` samples early at every border alike.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from omniflow_compiler import codes
from omniflow_compiler.diagnostics import Label, Report
from omniflow_compiler.graph import Component, Edge, Node, ProgramGraph
from omniflow_compiler.library.signature import Port
from omniflow_compiler.passes.types import Types
from omniflow_compiler.quantities import show_rate


def deficits(strides: Sequence[int]) -> list[int]:
    """Samples that are missing at the end after each layer of those strides."""
    missing: list[int] = []
    for stride in strides:
        missing.append((missing[-1] if missing else 0) * stride + stride)
    return missing


def frames_before(strides: Sequence[int], hop: int) -> int:
    """Frames of left context with which the last new * hop samples of a window equal those of the whole.

    Their first sample is `d` before the border; it depends on inputs up to `d` samples further back, because a layer of
    kernel 2s and stride s reaches s outputs to the left: the same recurrence as that of the deficit.
    """
    missing = deficits(strides)
    return math.ceil(2 * missing[-1] / hop) if missing and hop else 0


def check_conservation(graph: ProgramGraph, types: Types, report: Report) -> None:
    """Reports chunk policies that lose samples, and decoders whose rates do not fit their hop."""
    for node in graph.nodes.values():
        if node.component is None or node.loop is None:
            continue
        streamed = [e for e in graph.incoming[node.id] if e.spec.streams and e.target_port is not None]
        first = next((e for e in streamed if e.target_port is not None and e.target_port.streams), None)
        for edge in streamed:
            if _is_cut(edge):
                _check_context(edge, node.component, report, has_strides=edge is first)
        _check_hop(node, node.component, graph, types, report)


def _is_cut(edge: Edge) -> bool:
    """Whether the reader sees the stream in pieces."""
    return "chunk" in edge.spec.attributes or (edge.source_port is not None and edge.source_port.streams)


def _check_context(edge: Edge, component: Component, report: Report, *, has_strides: bool) -> None:
    port, signature = edge.target_port, component.signature
    assert port is not None
    before = frames_before(signature.strides, signature.hop) if has_strides else 0
    given = {side: edge.attribute(f"{side}_context", 0) for side in ("left", "right")}
    needed = {"left": max(port.left, before), "right": port.right}
    lacking = [side for side in given if given[side] < needed[side]]
    if not lacking:
        return
    is_deficit = given["left"] < before
    message = _loses(component) if is_deficit else _blurs(given, needed, lacking, signature.hop)
    report.add(
        codes.CONTEXT,
        edge.spec.target.span,
        message,
        note=", ".join(f"{side}_context is {given[side]}, {needed[side]} is needed" for side in lacking),
        labels=[Label(span=component.spec.use.span, text=_layers(component) if is_deficit else "this decoder")],
        help=[f"set {_written(needed, lacking)}{_effect(component, is_deficit)}"],
    )


def _written(needed: dict[str, int], sides: list[str]) -> str:
    return " and ".join(f"`{side}_context: {needed[side]}`" for side in sides)


def _loses(component: Component) -> str:
    lost = deficits(component.signature.strides)[-1]
    return f"every chunk loses {lost} samples{_milliseconds(lost, component)} at its end"


def _milliseconds(samples: int, component: Component) -> str:
    rates = [
        port.pattern.rate.factor
        for ports in component.signature.serves.values()
        for port in ports.outputs
        if port.pattern.rate is not None and port.pattern.rate.variable is None
    ]
    return f" ({float(samples * 1000 / rates[0]):.3g} ms)" if rates else ""


def _layers(component: Component) -> str:
    strides = component.signature.strides
    missing = ", ".join(map(str, deficits(strides)))
    return f"after its strides {', '.join(map(str, strides))} it is {missing} samples short"


def _effect(component: Component, is_deficit: bool) -> str:
    if not is_deficit:
        return ""
    return f": the last new * {component.signature.hop} samples of each window are then whole"


def _blurs(given: dict[str, int], needed: dict[str, int], lacking: list[str], hop: int) -> str:
    frames = max(needed[side] - given[side] for side in lacking)
    samples = f" ({frames * hop} samples)" if hop else ""
    return f"at every border of a chunk {frames} elements{samples} are computed from too little context"


def _check_hop(node: Node, component: Component, graph: ProgramGraph, types: Types, report: Report) -> None:
    """Rates and sizes of a decoder must say what its hop says."""
    hop = component.signature.hop
    frames = next((port for port in node.inputs.values() if port.streams), None)
    samples = next((port for port in node.outputs.values() if port.streams), None)
    if not hop or frames is None or samples is None:
        return
    _check_size(node, component, frames, samples, report)
    arriving, leaving = types.inputs.get((node.id, frames.name)), types.outputs.get((node.id, samples.name))
    if arriving is None or leaving is None or arriving.rate is None or leaving.rate is None:
        return
    expected = arriving.rate.factor * hop
    if expected != leaving.rate.factor:
        edge = next((e for e in graph.incoming[node.id] if e.spec.target.port == frames.name), None)
        rates = [show_rate(rate) for rate in (arriving.rate.factor, expected, leaving.rate.factor)]
        report.add(
            codes.RATE_MISMATCH,
            node.span if edge is None else edge.spec.target.span,
            f"`{node.id}` makes {hop} samples of a frame: {rates[0]} in is {rates[1]} out, not {rates[2]}",
            labels=[Label(span=component.spec.use.span, text=f"{hop} samples a frame")],
            help=["use the decoder that belongs to these frames"],
        )


def _check_size(node: Node, component: Component, frames: Port, samples: Port, report: Report) -> None:
    one, other = frames.pattern.axes, samples.pattern.axes
    symbol = one[0].size.symbol if one else None
    terms = dict(other[0].size.terms) if other else {}
    if symbol in terms and (terms[symbol] != component.signature.hop or other[0].size.constant):
        use, hop = component.spec.use, component.signature.hop
        report.add(
            codes.CONTEXT,
            use.span,
            f"expert `{use.text}` gives {samples.type} of {frames.type}, its hop is {hop}",
            labels=[Label(span=node.span, text="used here")],
            help=["the expert's signature contradicts itself: samples out must be frames in times hop"],
        )
