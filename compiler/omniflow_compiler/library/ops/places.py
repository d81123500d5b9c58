"""Ops on places: turns of a chat, rows at places, rows that go before a stream, projections into another space."""

from __future__ import annotations

from omniflow_compiler.library.signature import Attribute, OpSignature, Port, Ports


def _ports(inputs: tuple[Port, ...], outputs: tuple[Port, ...]) -> Ports:
    return Ports(inputs=inputs, outputs=outputs)


_MARKED = Attribute(name="ids", type="ids", required=True, is_fixed=True, doc="Tokens whose places are meant.")

SIGNATURES = (
    OpSignature(
        name="by_role",
        ports=_ports((Port(name="tokens", type="tokens[P]"),), (Port(name="places", type="i64[K]"),)),
        attributes=(
            Attribute(name="opens", type="int", required=True, minimum=0, is_fixed=True, doc="The token that opens a turn; the one behind it is the role."),
            Attribute(name="role", type="int", required=True, minimum=0, is_fixed=True, doc="The token of the role."),
            Attribute(name="which", type="text", default="all", choices=("all", "first", "last"), doc="Turns of that role to take."),
        ),
        doc="Places of the tokens of a role's turns in a chat.",
    ),
    OpSignature(
        name="take",
        ports=_ports((Port(name="rows", type="?a[T, ...]"), Port(name="places", type="i64[K]")), (Port(name="rows", type="?a[K, ...]"),)),
        doc="Rows at places.",
    ),
    OpSignature(
        name="take_at",
        ports=_ports((Port(name="rows", type="?a[T, ...]"), Port(name="tokens", type="tokens[T]")), (Port(name="rows", type="?a[A, ...]"),)),
        attributes=(_MARKED,),
        doc="Rows at the places of certain tokens.",
    ),
    OpSignature(
        name="spread_at",
        ports=_ports((Port(name="tokens", type="tokens[T]"), Port(name="values", type="?a[A, ...]")), (Port(name="rows", type="?a[T, ...]"),)),
        attributes=(_MARKED,),
        doc="Rows, in order, at the places of certain tokens, and zeros elsewhere; there must be as many.",
    ),
    OpSignature(
        name="put_first",
        ports=_ports((Port(name="rows", type="?a[T, ...]"), Port(name="values", type="?a[K, ...]")), (Port(name="rows", type="?a[T, ...]"),)),
        doc="Puts other rows in place of the first rows of a value.",
    ),
    OpSignature(
        name="prepend", barrier=False,
        ports=_ports(
            (Port(name="head", type="?a[K, ...]"), Port(name="value", type="?a[T, ...] @ r", streams=True)),
            (Port(name="value", type="?a[T2, ...] @ r", streams=True),),
        ),
        doc="A value, and behind it a stream.",
    ),
    OpSignature(
        name="project", needs="language_model", barrier=False,
        ports=_ports((Port(name="rows", type="act[T, outer]", streams=True),), (Port(name="rows", type="act[T, hidden]", streams=True),)),
        attributes=(Attribute(name="through", type="text", required=True, is_fixed=True, doc="Which of the component's projections."),),
        doc="Rows of another expert's space in the space of this one.",
    ),
    OpSignature(
        name="voice_id", needs="voices",
        ports=_ports((Port(name="name", type="text"),), (Port(name="token", type="tokens[1] < vocabulary"),)),
        doc="The token of a voice.",
    ),
)  # fmt: skip
