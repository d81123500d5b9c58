"""Where every value of a program came from: the command line, the configuration, a spec, or a default."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from omniflow_compiler.graph import Component, Node, ProgramGraph
from omniflow_compiler.prescribed import prescribing_files
from omniflow_compiler.source import Span
from omniflow_compiler.spec import Attribute


@dataclass(frozen=True, slots=True, kw_only=True)
class Origin:
    """A value by its dotted name, and in words where it was set."""

    name: str
    value: object
    origin: str


def origins(graph: ProgramGraph) -> Iterator[Origin]:
    """Params first, then components, loops and nodes, each by name."""
    spans = {**graph.card.origins, **graph.program.origins}
    params = {**graph.card.params, **graph.program.params}
    for name in sorted(params):
        value = params[name]
        is_unset = isinstance(value, str) and value == f"${name}"
        yield Origin(
            name=f"params.{name}", value=None if is_unset else value, origin="not set" if is_unset else str(spans[name])
        )
    for name in sorted(graph.components):
        yield from _component(f"components.{name}", graph.components[name])
    seen = set()
    for name in sorted(graph.nodes):
        node = graph.nodes[name]
        if node.loop_spec is None:
            written = node.spec.attributes if node.spec is not None else {}
            yield from _attributes(
                f"nodes.{name}", node.attributes, written, f"default of op {node.op.name}" if node.op else "default"
            )
        elif node.loop_spec.name.text not in seen:
            seen.add(node.loop_spec.name.text)
            yield from _loop(node)


def _component(name: str, component: Component) -> Iterator[Origin]:
    spec = component.spec
    yield Origin(name=f"{name}.use", value=spec.use.text, origin=str(spec.use.span))
    if spec.source is not None:
        yield Origin(name=f"{name}.from", value=spec.source, origin=str(spec.span.start))
    for key, value, span in (("dtype", spec.dtype, spec.dtype_span), ("device", spec.device, spec.device_span)):
        yield Origin(name=f"{name}.{key}", value=value, origin=_place(span, "default"))
    yield from _attributes(name, component.attributes, spec.attributes, f"default of {spec.use.text}")


def _loop(node: Node) -> Iterator[Origin]:
    assert node.loop_spec is not None
    assert node.loop is not None
    name = f"loops.{node.loop_spec.name.text}"
    files = prescribing_files(node.loop, node.component)
    yield from _attributes(name, node.attributes, node.loop_spec.attributes, f"default of {node.loop.kind}", files)


def _attributes(
    name: str,
    values: Mapping[str, object],
    written: Mapping[str, Attribute],
    default: str,
    files: Mapping[str, str] | None = None,
) -> Iterator[Origin]:
    for key in sorted(values):
        given = written.get(key)
        value = values[key]
        shown = list(value) if isinstance(value, Sequence) and not isinstance(value, str) else value
        other = (files or {}).get(key, default)
        yield Origin(name=f"{name}.{key}", value=shown, origin=_place(None if given is None else given.span, other))


def _place(span: Span | None, default: str) -> str:
    return default if span is None else str(span)
