"""Ops of hand-offs between experts: rows for ids, rows at places, ends of streams, positions on a grid, voices."""

from __future__ import annotations

from omniflow_compiler.library.signature import Attribute, OpSignature, Port, Ports


def _ports(inputs: tuple[Port, ...], outputs: tuple[Port, ...]) -> Ports:
    return Ports(inputs=inputs, outputs=outputs)


_MARKED = Attribute(name="ids", type="ids", required=True, doc="Tokens whose places are meant.")

SIGNATURES = (
    OpSignature(
        name="ids",
        ports=_ports((), (Port(name="tokens", type="tokens[K]"),)),
        attributes=(Attribute(name="ids", type="ids", required=True, doc="What it gives."),),
        doc="Tokens that are always the same.",
    ),
    OpSignature(
        name="repeat_id",
        ports=_ports((Port(name="like", type="?a[T, ...]"),), (Port(name="tokens", type="tokens[T]"),)),
        attributes=(Attribute(name="id", type="int", required=True, minimum=0, doc="The token."),),
        doc="One token, as often as another value has rows.",
    ),
    OpSignature(
        name="embed", needs="language_model", barrier=False,
        ports=_ports((Port(name="tokens", type="tokens[T] < vocabulary", streams=True),), (Port(name="embeds", type="act[T, hidden]", streams=True),)),
        doc="Input embeddings of tokens.",
    ),
    OpSignature(
        name="zero_at",
        ports=_ports((Port(name="rows", type="?a[T, ...]"), Port(name="tokens", type="tokens[T]")), (Port(name="rows", type="?a[T, ...]"),)),
        attributes=(_MARKED,),
        doc="Zeroes the rows at the places of certain tokens.",
    ),
    OpSignature(
        name="put_at",
        ports=_ports(
            (Port(name="rows", type="?a[T, ...]"), Port(name="tokens", type="tokens[T]"), Port(name="values", type="?a[A, ...]")),
            (Port(name="rows", type="?a[T, ...]"),),
        ),
        attributes=(_MARKED,),
        doc="Puts other rows, in order, at the places of certain tokens; there must be as many.",
    ),
    OpSignature(
        name="add_last",
        ports=_ports((Port(name="rows", type="?a[T, ...]"), Port(name="values", type="?a[K, ...]")), (Port(name="rows", type="?a[T, ...]"),)),
        doc="Adds rows to the last rows of a value.",
    ),
    OpSignature(
        name="put_last",
        ports=_ports((Port(name="rows", type="?a[T, ...]"), Port(name="values", type="?a[K, ...]")), (Port(name="rows", type="?a[T, ...]"),)),
        doc="Puts other rows in place of the last rows of a value.",
    ),
    OpSignature(
        name="append", barrier=False,
        ports=_ports(
            (Port(name="value", type="?a[T, ...] @ r", streams=True), Port(name="tail", type="?a[K, ...]")),
            (Port(name="value", type="?a[T2, ...] @ r", streams=True),),
        ),
        doc="A stream, and behind its end a value.",
    ),
    OpSignature(
        name="grid_positions",
        ports=_ports(
            (Port(name="tokens", type="tokens[P]"), Port(name="grids", type="i64[N*, 3]", required=False, doc="Frames, rows and columns of patches of each picture, in order.")),
            (Port(name="positions", type="i64[P, 3]", doc="In time, row and column."),),
        ),
        attributes=(
            _MARKED,
            Attribute(name="merge", type="int", default=1, minimum=1, doc="Patches per token along rows and along columns."),
        ),
        doc="Positions of tokens, where runs of certain tokens stand for the patches of pictures (M-RoPE of Qwen2-VL).",
    ),
    OpSignature(
        name="voice", needs="voices",
        ports=_ports(
            (Port(name="name", type="text"),),
            (
                Port(name="token", type="tokens[1] < vocabulary"),
                Port(name="vector", type="f32[speaker]"),
                Port(name="reference", type="f32[C, mels]"),
            ),
        ),
        doc="What is known of a voice: a token, a vector and a reference clip.",
    ),
)  # fmt: skip
