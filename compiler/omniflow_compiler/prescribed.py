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
    found = _found(kind, component)
    return tuple(replace(a, default=found[a.name][0]) if a.name in found else a for a in kind.attributes)


def prescribing_files(kind: LoopSignature, component: Component | None) -> dict[str, str]:
    """Where each attribute's default was read, for those that the checkpoint prescribes."""
    return {name: f"{file} of the checkpoint" for name, (_, file) in _found(kind, component).items()}


def _found(kind: LoopSignature, component: Component | None) -> dict[str, tuple[object, str]]:
    """Prescribed values and their files, by attribute."""
    found: dict[str, tuple[object, str]] = {}
    for name, where in ({} if component is None else component.signature.prescribes.get(kind.kind, {})).items():
        for file in filter(None, (where.file, where.otherwise)):
            value = where.read(read_part(component.spec.source if component else None, file))
            if value is not None:
                found[name] = value, file
                break
    return found


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
    return replace(port, type=with_sizes(port.type, sizes)) if "{" in port.type else port


def with_sizes(text: str, sizes: Mapping[str, int]) -> str:
    """A type or size with the component's numbers in place of their names in braces."""
    return _SIZE.sub(lambda found: str(sizes.get(found[1], 1)), text)
