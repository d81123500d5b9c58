"""Resolves a loop inside a loop: the inner loop, what it reads of the outer step, what it gives back."""

from __future__ import annotations

from collections.abc import Mapping

from omniflow_compiler import codes
from omniflow_compiler.attributes import check_attributes
from omniflow_compiler.diagnostics import Report
from omniflow_compiler.fields import fill_in
from omniflow_compiler.graph import Component, Inner
from omniflow_compiler.library.library import Library
from omniflow_compiler.library.signature import Port, Ports
from omniflow_compiler.names import unknown
from omniflow_compiler.spec import CardSpec, InnerSpec, LoopSpec
from omniflow_compiler.suggest import did_you_mean, nearest

ENDS = ("stop", "stop_frame")  # attributes that end a loop before its bound


def resolve_inner(
    outer: LoopSpec, card: CardSpec, components: Mapping[str, Component], library: Library, report: Report
) -> Inner | None:
    """The inner loop of a loop; None when there is none or it is faulty, with the reason in the report."""
    written = outer.inner
    if written is None:
        return None
    if written.loop.text == outer.name.text:
        report.add(codes.BAD_VALUE, written.loop.span, f"loop `{outer.name.text}` cannot be inside itself")
        return None
    spec = card.loops.get(written.loop.text)
    if spec is None:
        if not card.has("loops", written.loop.text):
            others = {name: loop for name, loop in card.loops.items() if loop is not outer}
            unknown(report, codes.UNKNOWN_LOOP, written.loop, others, "loop")
        return None
    if spec.inner is not None:
        report.add(codes.BAD_VALUE, written.loop.span, f"inner loop `{spec.name.text}` has an inner loop itself")
        return None
    kind, component = library.loops.get(spec.kind.text), components.get(spec.binds.text)
    ports = component.signature.serves.get(spec.kind.text) if component is not None else None
    if kind is None or component is None or ports is None:
        return None  # reported where the inner loop is declared
    filled = fill_in(spec.attributes, spec.name.text, components, Report())
    attributes = check_attributes(kind.attributes, filled, f"loop `{spec.name.text}`", spec.name.span, Report())
    length = attributes.get("max_tokens")
    if not isinstance(length, int):
        help = ["give it `max_tokens` as a number: every outer step makes that many"]
        report.add(codes.BAD_VALUE, spec.name.span, f"inner loop `{spec.name.text}` has no fixed length", help=help)
        return None
    if not _check_ports(written, ports, report):
        return None
    ends = [name for name in ENDS if attributes.get(name)]
    if ends:
        help = [f"remove `{ends[0]}`: a frame always has its full length"]
        report.add(codes.BAD_VALUE, spec.name.span, f"inner loop `{spec.name.text}` could end early", help=help)
        return None
    if not _check_types(outer, written, component, ports, components, report):
        return None
    return Inner(
        loop=kind,
        spec=spec,
        component=component,
        attributes=attributes,
        feed={port: value.text for port, value in written.feed.items()},
        back=written.back.text,
        length=length,
    )


def _check_types(
    outer: LoopSpec,
    written: InnerSpec,
    component: Component,
    ports: Ports,
    components: Mapping[str, Component],
    report: Report,
) -> bool:
    """Whether the values of the outer step fit the inputs that they are fed to: ids to ids, rows to rows as wide."""
    owner = components.get(outer.binds.text)
    given = owner.signature.serves.get(outer.kind.text) if owner is not None else None
    row = next((port for port in given.outputs if port.name == "hidden"), None) if given is not None else None
    before = report.num_errors
    for port in ports.inputs:
        value = written.feed.get(port.name)
        if value is None:
            continue
        takes_ids = port.pattern.base == "tokens"
        if takes_ids != (value.text == "token"):
            help = [f"feed it {'`token`' if takes_ids else '`hidden` or `embeds`'}"]
            message = f"`{value.text}` is not {port.type}, which input `{port.name}` of the inner loop takes"
            report.add(codes.BASE_MISMATCH, value.span, message, help=help)
        elif not takes_ids and row is not None and owner is not None:
            has, wants = _width(row, owner), _width(port, component)
            if has is not None and wants is not None and has != wants:
                message = f"`{value.text}` is {has} wide, input `{port.name}` of the inner loop takes {wants}"
                report.add(codes.AXIS_SIZE, value.span, message)
    return report.num_errors == before


def _width(port: Port, component: Component) -> int | None:
    """The size of a row, as far as it is known."""
    size = port.pattern.axes[-1].size
    if size.number is not None:
        return int(size.number)
    return component.sizes.get(size.symbol) if size.symbol is not None else None


def _check_ports(written: InnerSpec, ports: Ports, report: Report) -> bool:
    inputs = {port.name: port for port in ports.inputs}
    outputs = {port.name: port for port in ports.outputs}
    before = report.num_errors
    for port, value in written.feed.items():
        if port not in inputs:
            help = did_you_mean(port, inputs, "input port")
            report.add(codes.UNKNOWN_PORT, value.span, f"inner loop has no input port `{port}`", help=help)
    for name, port_signature in inputs.items():
        misspelt = nearest(name, (port for port in written.feed if port not in inputs))
        if port_signature.required and name not in written.feed and not misspelt:
            help = [f"add `{name}: token`, `{name}: hidden` or `{name}: embeds` to `feed`"]
            report.add(
                codes.MISSING_INPUT, written.loop.span, f"input `{name}` of the inner loop is not fed", help=help
            )
    if written.back.text not in outputs:
        unknown(report, codes.UNKNOWN_PORT, written.back, outputs, "output port")
    return report.num_errors == before
