"""Puts numbers that a component's checkpoint tells in place of `$component.number`, e.g. `stop: [$talker.codec_end]`.

The numbers are the sizes of the component's signature: special ids, table sizes, hop lengths. They are known once
components are resolved, so this comes after params, which are put in place of `$param` when a file is parsed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from omniflow_compiler import codes
from omniflow_compiler.diagnostics import Report
from omniflow_compiler.graph import Component
from omniflow_compiler.names import unknown
from omniflow_compiler.source import Span
from omniflow_compiler.spec import Attribute, Name

STAND_IN = 1  # for a number that is not there, so that one mistake is one diagnostic


def fill_in(
    written: Mapping[str, Attribute], owner: str, components: Mapping[str, Component], report: Report
) -> dict[str, Attribute]:
    """Written attributes of a node or loop with all references replaced; unknown ones are reported."""
    filler = _Filler(owner, components, report)
    return {name: replace(given, value=filler.fill(given.value, given.span)) for name, given in written.items()}


class _Filler:
    def __init__(self, owner: str, components: Mapping[str, Component], report: Report) -> None:
        self.owner = owner
        self.components = components
        self.report = report

    def fill(self, value: object, span: Span) -> object:
        """The value with references replaced, at any depth."""
        if isinstance(value, list):
            return [self.fill(item, span) for item in value]
        if isinstance(value, dict):
            return {key: self.fill(item, span) for key, item in value.items()}
        if isinstance(value, str) and value.startswith("$") and "." in value:
            return self._number(value, span)
        return value

    def _number(self, written: str, span: Span) -> object:
        name, _, field = written[1:].partition(".")
        component = self._component(name)
        if component is None:
            unknown(self.report, codes.UNKNOWN_COMPONENT, Name(text=name, span=span), self.components, "component")
        elif field not in component.signature.sizes:
            at, known = Name(text=field, span=span), component.signature.sizes
            unknown(self.report, codes.UNKNOWN_PARAM, at, known, "number", f" of `{component.signature.use}`")
        return STAND_IN if component is None else component.sizes.get(field, STAND_IN)

    def _component(self, name: str) -> Component | None:
        """The component as seen from its owner: in a workflow, names of a stage are prefixed with the stage's."""
        path = self.owner.split("/")[:-1]
        for depth in range(len(path), -1, -1):
            found = self.components.get("/".join([*path[:depth], name]))
            if found is not None:
                return found
        return None
