"""Schedules built by hand, for tests of the runtime that need graphs or faults no catalogue program has."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal

from omniflow_compiler.schedule import Cache, Channel, Expert, Input, Node, Output, Place, Port, PortType, Schedule

BASES = ("text", "tokens", "audio", "json", "scalar", "latent", "image", "kv")


def place(line: int) -> Place:
    return Place(file="hand.program.yaml", line=line, column=3)


def kind(text: str) -> PortType:
    """`tokens[W*, C]`, `f32[F, 130]`, `audio[S]`, `text[N*]` as a port type; audio is at 24 kHz."""
    head, _, rest = text.partition("[")
    axes = tuple(axis.strip() for axis in rest.removesuffix("]").split(",")) if rest else ()
    base = head if head in BASES else "act"
    dtype = {"tokens": "int64", "text": None, "json": None, "scalar": None, "kv": None}.get(base, "float32")
    rate = 24_000.0 if base == "audio" else None
    return PortType(text=text, base=base, dtype=dtype, axes=axes, rate_hz=rate, vocabulary=None)


def node(
    name: str,
    what: str,
    *,
    inputs: Mapping[str, str],
    outputs: Mapping[str, str],
    expert: str | None = None,
    cache: str | None = None,
    each: bool = False,
    when: str | None = None,
    lengths: Mapping[str, str] | None = None,
    attributes: Mapping[str, Any] | None = None,
    depth: int = 0,
    line: int = 1,
) -> Node:
    """A node: `op.NAME` or `loop.KIND`."""
    sort: Literal["op", "loop"] = "op" if what.startswith("op.") else "loop"
    return Node(
        id=name,
        kind=sort,
        name=what.partition(".")[2],
        loop=name if sort == "loop" else None,
        expert=expert,
        cache=cache,
        inner=None,
        attributes=attributes or {},
        each=each,
        when=when,
        inputs=tuple(Port(name=port, type=kind(text), streams=False) for port, text in inputs.items()),
        outputs=tuple(Port(name=port, type=kind(text), streams=True) for port, text in outputs.items()),
        units=(),
        depth=depth,
        place=place(line),
        lengths=lengths or {},
    )


def edge(written: str, text: str, *, line: int = 1, order: int = 0, **attributes: Any) -> Channel:
    """`a.x ~> b.y` with a type."""
    arrow = "~>" if "~>" in written else "->"
    source, target = (part.strip() for part in written.split(arrow))
    target_node, _, port = target.partition(".")
    base = Channel(
        id=f"{source} {arrow} {target}",
        source=source,
        node=target_node,
        port=port,
        order=order,
        streams=arrow == "~>",
        capacity=64,
        chunk=0,
        first_chunk=0,
        left_context=0,
        right_context=0,
        start=0,
        when_empty=None,
        back_edge=None,
        type=kind(text),
        place=place(line),
    )
    return replace(base, **attributes)


def expert(name: str, use: str, attributes: Mapping[str, Any] | None = None) -> Expert:
    return Expert(
        name=name,
        use=use,
        role="",
        source=None,
        dtype="float32",
        device="cpu",
        attributes=attributes or {},
        sizes={},
        weight_bytes=0,
        digest="",
        place=place(2),
    )


def schedule(
    *,
    inputs: Mapping[str, str],
    outputs: Mapping[str, tuple[str, str]],
    nodes: Sequence[Node],
    edges: Sequence[Channel],
    experts: Sequence[Expert] = (),
    caches: Sequence[Cache] = (),
) -> Schedule:
    """outputs: name to (`node.port`, type). Depths are the positions in `nodes`."""
    found = []
    for line, (name, (port, text)) in enumerate(outputs.items(), 1):
        source, _, port_name = port.partition(".")
        found.append(Output(name=name, node=source, port=port_name, type=kind(text), streams=True, place=place(line)))
    return Schedule(
        program="hand",
        card="hand",
        stages=(),
        compiler="0",
        params={},
        capabilities=(),
        parity={},
        inputs=tuple(
            Input(name=name, type=kind(text), required=True, default=None, place=place(1))
            for name, text in inputs.items()
        ),
        outputs=tuple(found),
        experts=tuple(experts),
        caches=tuple(caches),
        nodes=tuple(replace(each, depth=i) for i, each in enumerate(nodes)),
        channels=tuple(edges),
        buffers=(),
        memory=(),
        critical_path=(),
        critical_seconds=0.0,
    )
