"""Gives every name its meaning: components their experts, nodes their signatures, attributes their values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from omniflow_compiler import codes
from omniflow_compiler.attributes import check_attributes
from omniflow_compiler.caching import check_cache
from omniflow_compiler.checkpoint import read_size
from omniflow_compiler.codebooks import check_delays
from omniflow_compiler.diagnostics import Edit, Label, Report
from omniflow_compiler.expressions import Expression, ExpressionError
from omniflow_compiler.fields import fill_in
from omniflow_compiler.graph import Component, Node
from omniflow_compiler.inner import resolve_inner
from omniflow_compiler.library.library import Library
from omniflow_compiler.library.signature import ExpertSignature, OpSignature, Port
from omniflow_compiler.names import unknown, within
from omniflow_compiler.placement import check_placement
from omniflow_compiler.prescribed import prescribed, sized_ports
from omniflow_compiler.source import Span
from omniflow_compiler.spec import CardSpec, ComponentSpec, LoopSpec, Name, NodeSpec, ProgramSpec
from omniflow_compiler.suggest import did_you_mean, nearest
from omniflow_compiler.types import DTYPE_BYTES

_OF_COMPONENT = ("from", "dtype", "device")
_OF_LOOP = ("cache", "inner")
_OF_NODE = ("with", "each", "when")
_OF_LOOP_NODE = ("each", "when")


def resolve_components(card: CardSpec, library: Library, report: Report) -> dict[str, Component]:
    """The card's components whose expert is installed."""
    components: dict[str, Component] = {}
    for name, spec in card.components.items():
        if report.is_full:
            break
        signature = library.expert(spec.use.text)
        if signature is None:
            unknown(report, codes.UNKNOWN_EXPERT, spec.use, library.experts, "expert")
        else:
            components[name] = _component(spec, signature, report)
    check_placement(components.values(), report)
    return components


def _component(spec: ComponentSpec, signature: ExpertSignature, report: Report) -> Component:
    owner = f"component `{spec.name.text}`"
    if signature.needs_source and spec.source is None:
        help = ["`from:` names the folder of the checkpoint"]
        report.add(codes.MISSING_KEY, spec.name.span, f"{owner} has no `from`", help=help)
    sizes = {name: read_size(size, spec.source) for name, size in signature.sizes.items()}
    attributes = check_attributes(signature.attributes, spec.attributes, owner, spec.name.span, report, _OF_COMPONENT)
    parameters = read_size(signature.num_parameters, spec.source) or 0
    measured = _measured(spec, signature, parameters)
    return Component(
        spec=spec,
        signature=replace(signature, unit_seconds={**signature.unit_seconds, **measured}),
        measured=frozenset(measured),
        sizes={name: size for name, size in sizes.items() if size is not None},
        attributes=attributes,
        num_parameters=parameters,
        kv_bytes_per_token=_kv_bytes(spec, signature),
        num_quantized=read_size(signature.num_quantized.get(str(attributes.get("quantize")), 0), spec.source) or 0,
    )


def _kv_bytes(spec: ComponentSpec, signature: ExpertSignature) -> int:
    size = read_size(signature.kv_bytes_per_token, spec.source) or 0
    return size * DTYPE_BYTES.get(spec.dtype, 4) // DTYPE_BYTES["float32"]


def _measured(spec: ComponentSpec, signature: ExpertSignature, parameters: int) -> Mapping[str, float]:
    """Measured seconds by kind of unit, to stand in place of those that its author declared, where they hold."""
    found = spec.measured
    if found is None or not found.holds_for(
        use=signature.use, dtype=spec.dtype, device=spec.device, parameters=parameters
    ):
        return {}
    return found.seconds


def resolve_loops(
    card: CardSpec, components: Mapping[str, Component], library: Library, report: Report
) -> dict[str, Node]:
    """Each of the card's loops as a node without id: its ports come from the expert it binds."""
    loops: dict[str, Node] = {}
    for name, spec in card.loops.items():
        node = _loop(name, spec, card, components, library, report)
        if node is not None:
            loops[name] = node
    return loops


def _loop(
    name: str, spec: LoopSpec, card: CardSpec, components: Mapping[str, Component], library: Library, report: Report
) -> Node | None:
    if spec.cache is not None and not card.has("caches", spec.cache.text):
        _unknown_cache(spec.cache, card, report)
    if not card.has("components", spec.binds.text):
        unknown(report, codes.UNKNOWN_COMPONENT, spec.binds, card.components, "component")
    kind, component = library.loops.get(spec.kind.text), components.get(spec.binds.text)
    if kind is None:
        return None
    written = fill_in(spec.attributes, name, components, report)
    declared = prescribed(kind, component)
    attributes = check_attributes(declared, written, f"loop `{name}`", spec.name.span, report, _OF_LOOP)
    if component is None:
        return None
    ports = sized_ports(component, kind.kind)
    if ports is None:
        _wrong_role(name, spec, component, components, report)
        return None
    _check_ids(attributes, spec, component, report)
    check_cache(spec, component, card, attributes, report)
    check_delays(spec, component, attributes, report)
    inner = resolve_inner(spec, card, components, library, report)
    if inner is None and spec.inner is not None:
        return None
    outputs = {port.name: port for port in ports.outputs}
    if inner is not None:
        outputs["codes"] = Port(
            name="codes",
            type=f"codes[T, {1 + inner.length}]",
            streams=True,
            doc="The outer token and the inner ones of each step.",
        )
    return Node(
        id=name,
        spec=None,
        is_known=True,
        loop=kind,
        loop_spec=spec,
        component=component,
        inner=inner,
        inputs={port.name: port for port in ports.inputs},
        outputs=outputs,
        attributes=attributes,
        span=spec.span,
    )


def _unknown_cache(cache: Name, card: CardSpec, report: Report) -> None:
    if card.caches:
        unknown(report, codes.UNKNOWN_CACHE, cache, card.caches, "cache")
        return
    help = [f"declare it: `caches: {{{cache.text}: {{kind: paged_kv, max_bytes: 256 MiB}}}}`"]
    report.add(codes.UNKNOWN_CACHE, cache.span, f"unknown cache `{cache.text}`", help=help)


def _wrong_role(
    name: str, spec: LoopSpec, component: Component, components: Mapping[str, Component], report: Report
) -> None:
    kind, served = spec.kind.text, sorted(component.signature.serves)
    fitting = sorted(n for n, c in components.items() if kind in c.signature.serves)
    help = [f"components that `{kind}` can bind: {', '.join(f'`{n}`' for n in fitting)}"] if fitting else []
    if served:
        help.append(f"`{component.spec.name.text}` can be bound by {', '.join(f'`{k}`' for k in served)}")
    role = component.signature.role.replace("_", " ")
    report.add(
        codes.WRONG_ROLE,
        spec.binds.span,
        f"loop `{name}` of kind `{kind}` cannot bind `{spec.binds.text}`, a {role}",
        labels=[Label(span=component.spec.use.span, text=f"`{component.signature.use}` is declared here")],
        help=help,
    )


def _check_ids(attributes: Mapping[str, object], spec: LoopSpec, component: Component, report: Report) -> None:
    vocabulary = component.sizes.get("vocabulary")
    for key in ("stop", "suppress", "stop_frame"):
        ids = attributes.get(key)
        if vocabulary is None or not isinstance(ids, tuple) or key not in spec.attributes:
            continue
        outside = [i for i in ids if isinstance(i, int) and i >= vocabulary]
        if outside:
            report.add(
                codes.VOCABULARY,
                spec.attributes[key].span,
                f"`{key}` names id {outside[0]}, the vocabulary of `{spec.binds.text}` has {vocabulary} ids",
                labels=[Label(span=component.spec.use.span, text=f"{vocabulary} ids, 0 to {vocabulary - 1}")],
            )


def resolve_nodes(
    program: ProgramSpec,
    loops: Mapping[str, Node],
    card: CardSpec,
    components: Mapping[str, Component],
    library: Library,
    report: Report,
) -> dict[str, Node]:
    """The program's nodes; those that could not be resolved are there too, marked unknown."""
    nodes: dict[str, Node] = {}
    for name, spec in program.nodes.items():
        if spec.kind == "op":
            resolved = _op_node(spec, card, components, library, report)
        else:
            resolved = _loop_node(spec, loops, card, report)
        op = library.ops.get(spec.name.text) if spec.kind == "op" else None
        nodes[name] = resolved or _unknown_node(name, spec.id.span, spec, op)
        _check_when(spec, program, card, report)
    for name in sorted(program.broken_nodes):
        nodes[name] = _unknown_node(name, program.span, None)
    return nodes


def _unknown_node(name: str, span: Span, spec: NodeSpec | None, op: OpSignature | None = None) -> Node:
    """A node of which nothing is known but, when its op is, how its ports are called."""
    inputs = {port.name: port for port in op.ports.inputs} if op is not None else {}
    outputs = {port.name: port for port in op.ports.outputs} if op is not None else {}
    return Node(id=name, spec=spec, is_known=False, inputs=inputs, outputs=outputs, attributes={}, span=span)


def _op_node(
    spec: NodeSpec, card: CardSpec, components: Mapping[str, Component], library: Library, report: Report
) -> Node | None:
    op = library.ops.get(spec.name.text)
    if op is None:
        unknown(report, codes.UNKNOWN_OP, spec.name, library.ops, "op")
        return None
    owner = f"node `{spec.id.text}` (op {op.name})"
    written = fill_in(spec.attributes, spec.id.text, components, report)
    attributes = check_attributes(op.attributes, written, owner, spec.id.span, report, _OF_NODE)
    component = None
    if spec.component is not None:
        component = components.get(spec.component.text)
        if component is None:
            if not card.has("components", spec.component.text):
                unknown(report, codes.UNKNOWN_COMPONENT, spec.component, card.components, "component")
            return None
        if op.needs is not None and component.signature.role != op.needs:
            _wrong_op_role(spec, op.needs, component, components, report)
            return None
        if op.needs is None:
            report.add(
                codes.UNKNOWN_KEY,
                spec.component.span,
                f"op `{op.name}` works without a component",
                help=["leave `with` out"],
            )
    elif op.needs is not None:
        if nearest("with", spec.attributes):
            return None  # the misspelt key is reported
        fitting = sorted(n for n, c in components.items() if c.signature.role == op.needs)
        help = [f"components with the role {op.needs}: {', '.join(f'`{n}`' for n in fitting)}"] if fitting else []
        report.add(codes.MISSING_KEY, spec.id.span, f"{owner} has no `with`: it needs a {op.needs}", help=help)
        return None
    if _misspells_each(spec):
        return None
    return Node(
        id=spec.id.text,
        spec=spec,
        is_known=True,
        op=op,
        component=component,
        inputs={port.name: port for port in op.ports.inputs},
        outputs={port.name: port for port in op.ports.outputs},
        attributes=attributes,
        each=spec.each,
        span=spec.id.span,
    )


def _wrong_op_role(
    spec: NodeSpec, needs: str, component: Component, components: Mapping[str, Component], report: Report
) -> None:
    assert spec.component is not None
    fitting = sorted(n for n, c in components.items() if c.signature.role == needs)
    role = component.signature.role.replace("_", " ")
    report.add(
        codes.WRONG_ROLE,
        spec.component.span,
        f"op `{spec.name.text}` needs a {needs}, `{spec.component.text}` is a {role}",
        labels=[Label(span=component.spec.use.span, text=f"`{component.signature.use}` is declared here")],
        help=[f"components with that role: {', '.join(f'`{n}`' for n in fitting)}"] if fitting else [],
    )


def _loop_node(spec: NodeSpec, loops: Mapping[str, Node], card: CardSpec, report: Report) -> Node | None:
    if not card.has("loops", spec.name.text):
        unknown(report, codes.UNKNOWN_LOOP, spec.name, card.loops, "loop", f" in card `{card.id.text}`")
        return None
    loop = loops.get(spec.name.text)
    for name, written in spec.attributes.items():
        message, close = f"unknown key `{name}` in node `{spec.id.text}`", nearest(name, _OF_LOOP_NODE, most=1)
        help = [f"did you mean `{close[0]}`?"] if close else [f"loop `{spec.name.text}` has its attributes in the card"]
        edits = [Edit(span=written.key_span, text=close[0])] if close else []
        report.add(codes.UNKNOWN_KEY, written.key_span, message, help=help, edits=edits)
    if loop is None or _misspells_each(spec):
        return None
    return Node(
        id=spec.id.text,
        spec=spec,
        is_known=True,
        loop=loop.loop,
        loop_spec=loop.loop_spec,
        component=loop.component,
        inner=loop.inner,
        inputs=loop.inputs,
        outputs=loop.outputs,
        attributes=loop.attributes,
        each=spec.each,
        span=spec.id.span,
    )


def _misspells_each(spec: NodeSpec) -> bool:
    """Whether a misspelt key was meant to be `each`, so that nothing is known of what the node reads."""
    return any(nearest("each", [name]) for name in spec.attributes)


def _check_when(spec: NodeSpec, program: ProgramSpec, card: CardSpec, report: Report) -> None:
    if spec.when is None or not isinstance(spec.when.value, str):
        return
    names = {*(f"inputs.{name}" for name in program.inputs)}
    names |= {f"params.{name}" for name in (*program.params, *card.params)}
    check_expression(spec.when.value, spec.when.span, names, codes.BAD_EXPRESSION, report)


def check_expression(text: str, span: Span, names: set[str], code: codes.Code, report: Report) -> None:
    """Reports an expression that cannot be read or that reads a name that is not there."""
    if not text.strip():
        help = ["write one, such as `inputs.prompt != ''`, or leave `when` out"]
        report.add(code, span, "the condition is empty", help=help)
        return
    try:
        expression = Expression(text)
    except ExpressionError as error:
        report.add(
            code,
            span,
            f"`{text[:80]}` cannot be read: {error}",
            help=["names, numbers, texts, comparisons, and, or, not, + - *"],
        )
        return
    for name in sorted(expression.names - names):
        place, whole = within(text, span, name), sorted(known for known in names if known.endswith(f".{name}"))
        help = [f"did you mean {' or '.join(f'`{known}`' for known in whole)}?"]
        edits = [Edit(span=place, text=whole[0])] if len(whole) == 1 and place != span else []
        found = help if whole else did_you_mean(name, names, "name")
        report.add(code, place, f"`{name}` is not known here", help=found, edits=edits)
