"""What is told of a thing in a spec, as Markdown."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from omniflow_compiler.editor.reading import Part, Socket
from omniflow_compiler.library.signature import Attribute, ExpertSignature, LoopSignature, OpSignature, Port
from omniflow_compiler.spec import CacheSpec, InputSpec


def of_part(name: str, part: Part) -> str:
    """A node with its ports."""
    lines = [f"**{name}**: {part.what}", "", part.doc, ""]
    lines += [_socket("in", port, socket) for port, socket in part.inputs.items()]
    lines += [_socket("out", port, socket) for port, socket in part.outputs.items()]
    return "\n".join(lines).strip()


def of_port(node: str, port: str, part: Part) -> str:
    """One port."""
    side, sockets = ("output", part.outputs) if port in part.outputs else ("input", part.inputs)
    socket = sockets.get(port)
    if socket is None:
        return of_part(node, part)
    shown = f": `{socket.type}`" if socket.type else ""
    return "\n\n".join(text for text in (f"{side} `{node}.{port}`{shown}", socket.doc, f"*{part.what}*") if text)


def _socket(side: str, name: str, socket: Socket) -> str:
    shown = f": `{socket.type}`" if socket.type else ""
    return f"- {side} `{name}`{shown} {socket.doc}".rstrip()


def of_op(op: OpSignature) -> str:
    """An op with its ports and attributes."""
    needs = f" Works with a {op.needs.replace('_', ' ')}." if op.needs else ""
    how = "It waits for whole values." if op.barrier else "It works on pieces as they come."
    return _sheet(
        f"op **{op.name}**", f"{op.doc}{needs} {how}", _ports(op.ports.inputs, op.ports.outputs), op.attributes
    )


def of_loop_kind(loop: LoopSignature) -> str:
    """A loop kind with its attributes."""
    units = f"Work units: {', '.join(f'`{unit}`' for unit in loop.units)}."
    return _sheet(f"loop kind **{loop.kind}**", f"{loop.doc} {units}", [], loop.attributes)


def of_expert(expert: ExpertSignature) -> str:
    """An expert with its role and its ports under each loop kind."""
    ports = []
    for kind, served in sorted(expert.serves.items()):
        ports += [f"under `{kind}`:", *_ports(served.inputs, served.outputs)]
    sizes = [f"- size `{name}`: {size}" for name, size in expert.sizes.items() if isinstance(size, int)]
    doc = f"{expert.doc} Role: {expert.role.replace('_', ' ')}."
    return _sheet(f"expert **{expert.use}**", doc, [*ports, *sizes], expert.attributes)


def of_attribute(attribute: Attribute) -> str:
    """An attribute: type, default, limits, meaning."""
    return f"`{attribute.name}`: {_limits(attribute)}\n\n{attribute.doc}"


def of_input(spec: InputSpec) -> str:
    """A program input."""
    default = f", `{spec.default}` when the request brings none" if spec.has_default else ""
    limits = "".join(f", at most {limit.most} along {name}" for name, limit in spec.limits.items())
    limits += f", {spec.least.number} at least" if spec.least is not None else ""
    limits += f", {spec.most.number} at most" if spec.most is not None else ""
    return f"input `{spec.name.text}`: `{spec.type.text}`{default}{limits}\n\n{spec.help}".strip()


def of_cache(spec: CacheSpec) -> str:
    """A cache."""
    parts = "" if spec.kind == "features" else f" in blocks of {spec.block_tokens} tokens"
    reuse = f", reuse: {spec.reuse}" if spec.reuse else ""
    return f"cache `{spec.name.text}`: {spec.kind}, {spec.max_bytes} bytes{parts}{reuse}"


def of_param(name: str, value: object, declared: Mapping[str, object]) -> str:
    """A param: how it is declared and its value."""
    shown = ", ".join(f"{key} {item}" for key, item in declared.items() if key != "help")
    help = str(declared.get("help", ""))
    return "\n\n".join(text for text in (f"param `{name}` is `{value}`", shown, help) if text)


def _sheet(title: str, doc: str, ports: list[str], attributes: Iterable[Attribute]) -> str:
    rows = [f"- `{a.name}`: {_limits(a)}. {a.doc}" for a in attributes]
    return "\n".join([title, "", doc, "", *ports, "", *rows]).strip()


def _ports(inputs: Iterable[Port], outputs: Iterable[Port]) -> list[str]:
    sides = [("in", port) for port in inputs] + [("out", port) for port in outputs]
    return [f"- {side} `{port.name}`: `{port.type}` {port.doc}".rstrip() for side, port in sides]


def _limits(attribute: Attribute) -> str:
    shown = attribute.type if not attribute.choices else " or ".join(f"`{choice}`" for choice in attribute.choices)
    if attribute.minimum is not None:
        shown += f", {attribute.minimum:g} at least"
    if attribute.maximum is not None:
        shown += f", {attribute.maximum:g} at most"
    if attribute.required:
        return f"{shown}, required"
    default = list(attribute.default) if isinstance(attribute.default, tuple) else attribute.default
    return shown if default is None else f"{shown}, by default `{default}`"
