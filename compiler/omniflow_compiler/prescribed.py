"""What a component's checkpoint decides of the loops that bind it: attributes it prescribes, sizes in port types."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace

from omniflow_compiler.checkpoint import read_part
from omniflow_compiler.graph import Component
from omniflow_compiler.library.signature import Attribute, LoopSignature, Port, Ports

_SIZE = re.compile(r"\{(\w+)\}")


def prescribed(kind: LoopSignature, component: Component | None) -> tuple[Attribute, ...]:
    """The loop kind's attributes with the checkpoint's values as their defaults."""
    found = {} if component is None else component.signature.prescribes.get(kind.kind, {})
    values: dict[str, object] = {}
    for name, where in found.items():
        for file in filter(None, (where.file, where.otherwise)):
            value = where.read(read_part(component.spec.source if component else None, file))
            if value is not None:
                values[name] = value
                break
    return tuple(replace(a, default=values[a.name]) if a.name in values else a for a in kind.attributes)


def sized_ports(component: Component, kind: str) -> Ports | None:
    """The component's ports under a loop kind, with its sizes put in where types multiply by them."""
    ports = component.signature.serves.get(kind)
    if ports is None:
        return None
    return Ports(
        inputs=tuple(_sized(port, component.sizes) for port in ports.inputs),
        outputs=tuple(_sized(port, component.sizes) for port in ports.outputs),
    )


def _sized(port: Port, sizes: Mapping[str, int]) -> Port:
    if "{" not in port.type:
        return port
    return replace(port, type=_SIZE.sub(lambda found: str(sizes.get(found[1], 1)), port.type))
