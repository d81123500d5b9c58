"""Ops on values and streams of any kind: joining, adding, cutting."""

from __future__ import annotations

from omniflow_compiler.library.signature import Attribute, OpSignature, Port, Ports


def _ports(inputs: tuple[Port, ...], outputs: tuple[Port, ...]) -> Ports:
    return Ports(inputs=inputs, outputs=outputs)


SIGNATURES = (
    OpSignature(
        name="join", barrier=False,
        ports=_ports((Port(name="items", type="?a[N*, S, ...] @ r", streams=True),), (Port(name="samples", type="?a[S2, ...] @ r", streams=True),)),
        attributes=(Attribute(name="gap", type="int", default=0, minimum=0, maximum=10_000_000, doc="Zero elements between items."),),
        doc="Concatenates items into one stream.",
    ),
    OpSignature(
        name="add", barrier=False,
        ports=_ports((Port(name="a", type="?a[T, ...] @ r", streams=True), Port(name="b", type="?a[T, ...] @ r", streams=True)), (Port(name="sum", type="?a[T, ...] @ r", streams=True),)),
        doc="Adds two values element by element.",
    ),
    OpSignature(
        name="concat",
        ports=_ports((Port(name="parts", type="?a[T, ...]", variadic=True),), (Port(name="whole", type="?a[T2, ...]"),)),
        doc="Concatenates values along the leading axis, in the order of the edges.",
    ),
    OpSignature(
        name="strip", barrier=False,
        ports=_ports((Port(name="tokens", type="?a[T] @ r", streams=True),), (Port(name="tokens", type="?a[T2] @ r", streams=True),)),
        attributes=(Attribute(name="drop", type="ids", required=True, doc="Ids to leave out."),),
        doc="Leaves ids out.",
    ),
    OpSignature(
        name="clamp", barrier=False,
        ports=_ports((Port(name="tokens", type="?a[T, ...] @ r", streams=True),), (Port(name="tokens", type="?a[T, ...] < limit @ r", streams=True),)),
        attributes=(
            Attribute(name="limit", type="int", required=True, minimum=1, is_fixed=True, doc="Ids from here on are replaced."),
            Attribute(name="fill", type="int", default=0, minimum=0, is_fixed=True, doc="What replaces them."),
        ),
        doc="Replaces ids outside a vocabulary.",
    ),
    OpSignature(
        name="slice", barrier=False,
        ports=_ports((Port(name="value", type="?a[T, ...] @ r", streams=True),), (Port(name="value", type="?a[T2, ...] @ r", streams=True),)),
        attributes=(
            Attribute(name="start", type="int", default=0, minimum=0, doc="First element."),
            Attribute(name="stop", type="int", default=-1, minimum=-1, doc="Element after the last; -1 is the end."),
        ),
        doc="A range of the leading axis.",
    ),
)  # fmt: skip
