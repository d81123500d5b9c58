"""Checks what a component says of its checkpoint, dtype and device against what its expert can be."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import groupby

from omniflow_compiler import codes
from omniflow_compiler.diagnostics import Report
from omniflow_compiler.graph import Component
from omniflow_compiler.source import Span
from omniflow_compiler.spec import ComponentSpec

DTYPES, DEVICES = ("float32", "bfloat16", "float16"), ("cpu", "cuda")  # that a card may write


def check_placement(components: Iterable[Component], report: Report) -> None:
    """Reports a checkpoint that nobody reads, and dtypes and devices that an expert does not have."""
    found = list(components)
    for component in found:
        spec, signature = component.spec, component.signature
        if spec.source_span is not None and not signature.takes_source:
            message = f"`{signature.use}` reads no checkpoint: `from` in component `{spec.name.text}` has no effect"
            report.add(codes.UNKNOWN_KEY, spec.source_span, message, help=["leave `from` out"])
    wrong = [c for c in found if _lacks(c.spec.dtype, DTYPES, c.signature.dtypes)]
    for span, group in _together(wrong, lambda spec: spec.dtype_span):
        known = _common(component.signature.dtypes for component in group)
        help = [f"write {' or '.join(f'`{name}`' for name in known)}"] if known else []
        report.add(codes.PLACEMENT, span, f"{_named(group)} cannot be {group[0].spec.dtype}", help=help)
    wrong = [c for c in found if _lacks(c.spec.device.partition(":")[0], DEVICES, c.signature.devices)]
    for span, group in _together(wrong, lambda spec: spec.device_span):
        known = _common(component.signature.devices for component in group)
        help = [f"leave {'it' if len(group) == 1 else 'them'} on {' or '.join(known)}"] if known else []
        report.add(codes.PLACEMENT, span, f"{_named(group)} cannot be on {group[0].spec.device}", help=help)
    for component in found:
        bits = component.attributes.get("quantize")
        if bits in component.signature.num_quantized and component.spec.device != "cpu":
            span = component.spec.device_span or component.spec.name.span
            message = f"{_named([component])} cannot be on {component.spec.device} with `quantize: {bits}`"
            report.add(codes.PLACEMENT, span, message, help=["leave it on cpu, or leave `quantize` out"])


def _lacks(value: str, all: Sequence[str], own: Sequence[str]) -> bool:
    """Whether an expert that says what it can be cannot be that; what is no dtype or device at all is reported."""
    return bool(own) and value in all and value not in own


def _together(
    components: Sequence[Component], place: Callable[[ComponentSpec], Span | None]
) -> list[tuple[Span, list[Component]]]:
    """The components by the place of the value: one line of a configuration may be wrong for many."""

    def where(component: Component) -> Span:
        return place(component.spec) or component.spec.name.span

    order = sorted(components, key=lambda component: (str(where(component)), component.spec.name.text))
    return [(span, list(group)) for span, group in groupby(order, key=where)]


def _common(known: Iterable[Sequence[str]]) -> list[str]:
    """What all of them can be."""
    first, *others = known
    return [name for name in first if all(name in other for other in others)]


def _named(group: Sequence[Component]) -> str:
    names = ", ".join(f"`{component.spec.name.text}`" for component in group)
    if len(group) == 1:
        return f"component {names} (`{group[0].signature.use}`)"
    return f"components {names}"
