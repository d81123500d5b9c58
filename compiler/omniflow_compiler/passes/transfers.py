"""Lints of values on their way: precision that is lost without a word, and trips from a device to the host and back."""

from __future__ import annotations

from omniflow_compiler import codes
from omniflow_compiler.diagnostics import Label, Report
from omniflow_compiler.digraph import connected_parts
from omniflow_compiler.graph import Component, Edge, ProgramGraph
from omniflow_compiler.passes.types import Types
from omniflow_compiler.types import DTYPE_BYTES, show_dtype

_FLOATS = ("float64", "float32", "bfloat16", "float16")


def check_transfers(graph: ProgramGraph, types: Types, report: Report) -> None:
    """Reports both, at the edge where it happens."""
    devices = _devices(graph, types)
    narrow: set[str] = set()  # components that were told of: their `dtype` is one cause, however much comes in
    for edge in graph.edges:
        component = graph.nodes[edge.target_node].component
        if component is None or component.spec.name.text in narrow or not _carries_floats(edge, types):
            continue
        if edge.target_port is None or edge.target_port.pattern.dtype == "act":
            continue  # what this port takes is in the component's own dtype or an error
        if _check_precision(edge, component, types, report):
            narrow.add(component.spec.name.text)
    for name in graph.nodes:
        _check_round_trip(name, devices, graph, types, report)


def _carries_floats(edge: Edge, types: Types) -> bool:
    type = types.inputs.get((edge.target_node, edge.spec.target.port))
    return type is not None and type.dtype in _FLOATS


def _check_precision(edge: Edge, component: Component, types: Types, report: Report) -> bool:
    """Whether the edge brings more precision than the component has, which is reported."""
    given = types.inputs[edge.target_node, edge.spec.target.port].dtype
    if given is None or DTYPE_BYTES.get(component.spec.dtype, 8) >= DTYPE_BYTES[given]:
        return False
    spec = component.spec
    name, narrow = spec.name.text, show_dtype(spec.dtype)
    report.add(
        codes.PRECISION,
        edge.spec.source.span,
        f"`{edge.spec.source}` is {show_dtype(given)}, `{name}` works in {narrow}: the rest is lost without a word",
        labels=[Label(span=spec.dtype_span or spec.use.span, text=f"works in {narrow}")],
        help=[f"give `{name}` the `dtype` {given}, or let what comes before it work in {spec.dtype}"],
    )
    return True


def _devices(graph: ProgramGraph, types: Types) -> dict[str, Component]:
    """By node the component on whose device it works; an op without one works where its first tensor is."""
    found: dict[str, Component] = {}
    for part in connected_parts(graph.graph):
        for name in part:
            node = graph.nodes[name]
            if node.component is not None:
                found[name] = node.component
                continue
            for edge in graph.incoming[name]:
                if edge.source_node in found and _carries_floats(edge, types):
                    found[name] = found[edge.source_node]
                    break
    return found


def _check_round_trip(
    name: str, devices: dict[str, Component], graph: ProgramGraph, types: Types, report: Report
) -> None:
    """Reports a node that takes tensors from a device and gives them back to it while it works on another."""
    here = devices.get(name)
    if here is None or graph.nodes[name].component is None:
        return
    came = [
        (source, edge)
        for edge in graph.incoming[name]
        if (source := devices.get(edge.source_node or "")) is not None
        and source.spec.device != here.spec.device
        and _carries_floats(edge, types)
    ]
    back = _leaving(name, here, devices, graph, types) if came else {}
    for source, edge in came:
        if source.spec.device in back:
            _report_round_trip(edge, back[source.spec.device], source, here, report)
            return


def _leaving(
    name: str, here: Component, devices: dict[str, Component], graph: ProgramGraph, types: Types
) -> dict[str, Edge]:
    """By device the first edge over which a node's tensors leave its own, ops that work where they are in between."""
    found: dict[str, Edge] = {}
    stack, seen = [name], {name}
    while stack:
        for edge in graph.outgoing[stack.pop()]:
            there = devices.get(edge.target_node)
            if there is None or not _carries_floats(edge, types):
                continue
            if there.spec.device != here.spec.device:
                found.setdefault(there.spec.device, edge)
            elif graph.nodes[edge.target_node].component is None and edge.target_node not in seen:
                seen.add(edge.target_node)
                stack.append(edge.target_node)
    return found


def _report_round_trip(edge: Edge, back: Edge, source: Component, here: Component, report: Report) -> None:
    away, home = here.spec, source.spec
    often = "for every chunk" if edge.spec.streams or back.spec.streams else "once a request"
    report.add(
        codes.ROUND_TRIP,
        edge.spec.span,
        f"tensors go from {home.device} to `{edge.target_node}` on {away.device} and back, {often}",
        labels=[
            Label(span=back.spec.span, text=f"back to {home.device}"),
            Label(span=away.device_span or away.name.span, text=f"`{away.name.text}` is on {away.device}"),
        ],
        help=[f"put `{away.name.text}` on {home.device} too"],
    )
