"""Ops of hand-offs between experts: rows for ids, rows at places, ends of streams, positions on a grid, voices."""

from __future__ import annotations

from omniflow_compiler.library.signature import Attribute, OpSignature, Port, Ports

_MARKED = Attribute(name="ids", type="ids", required=True, is_fixed=True, doc="Tokens whose places are meant.")
_ROWS = Port(name="rows", type="?a[T, ...]")
_FEW = Port(name="values", type="?a[K, ...]")
_TOKENS = Port(name="tokens", type="tokens[T]")
_GRIDS = Port(
    name="grids",
    type="i64[N*, 3]",
    required=False,
    doc="Frames, rows, columns of patches of each picture, in order.",
)

SIGNATURES = (
    OpSignature(
        name="ids",
        ports=Ports(inputs=(), outputs=(Port(name="tokens", type="tokens[K]"),)),
        attributes=(Attribute(name="ids", type="ids", required=True, is_fixed=True, doc="What it gives."),),
        doc="Tokens that are always the same.",
    ),
    OpSignature(
        name="repeat_id",
        ports=Ports(inputs=(Port(name="like", type="?a[T, ...]"),), outputs=(_TOKENS,)),
        attributes=(Attribute(name="id", type="int", required=True, minimum=0, is_fixed=True, doc="The token."),),
        doc="One token, as often as another value has rows.",
    ),
    OpSignature(
        name="embed",
        needs="language_model",
        barrier=False,
        ports=Ports(
            inputs=(Port(name="tokens", type="tokens[T] < vocabulary", streams=True),),
            outputs=(Port(name="embeds", type="act[T, hidden]", streams=True),),
        ),
        doc="Input embeddings of tokens.",
    ),
    OpSignature(
        name="zero_at",
        ports=Ports(inputs=(_ROWS, _TOKENS), outputs=(_ROWS,)),
        attributes=(_MARKED,),
        doc="Zeroes the rows at the places of certain tokens.",
    ),
    OpSignature(
        name="put_at",
        ports=Ports(inputs=(_ROWS, _TOKENS, Port(name="values", type="?a[A, ...]")), outputs=(_ROWS,)),
        attributes=(_MARKED,),
        doc="Puts other rows, in order, at the places of certain tokens; there must be as many.",
    ),
    OpSignature(
        name="add_last",
        ports=Ports(inputs=(_ROWS, _FEW), outputs=(_ROWS,)),
        doc="Adds rows to the last rows of a value.",
    ),
    OpSignature(
        name="put_last",
        ports=Ports(inputs=(_ROWS, _FEW), outputs=(_ROWS,)),
        doc="Puts other rows in place of the last rows of a value.",
    ),
    OpSignature(
        name="append",
        barrier=False,
        ports=Ports(
            inputs=(Port(name="value", type="?a[T, ...] @ r", streams=True), Port(name="tail", type="?a[K, ...]")),
            outputs=(Port(name="value", type="?a[T2, ...] @ r", streams=True),),
        ),
        doc="A stream, and behind its end a value.",
    ),
    OpSignature(
        name="itemize",
        barrier=False,
        overlaps=True,
        ports=Ports(
            inputs=(
                Port(name="value", type="?a[T, ...]", streams=True),
                Port(name="beside", type="?b[T, ...]", streams=True, doc="In step with it, and cut alike."),
            ),
            outputs=(
                Port(name="value", type="?a[N*, W, ...]", streams=True),
                Port(name="beside", type="?b[N*, W, ...]", streams=True),
                Port(name="cut", type="i64[N*, 2]", streams=True, doc="Elements of context before, and new ones."),
            ),
        ),
        doc="Each window that the edges cut, its context included, is an item.",
    ),
    OpSignature(
        name="crop",
        ports=Ports(
            inputs=(Port(name="value", type="?a[W, ...]"), Port(name="cut", type="i64[2]")),
            outputs=(Port(name="value", type="?a[T, ...]"),),
        ),
        attributes=(
            Attribute(
                name="scale", type="int", default=1, minimum=1, is_fixed=True, doc="Elements per element that was cut."
            ),
        ),
        doc="What was made of a window, without what was made of its context.",
    ),
    OpSignature(
        name="noise",
        barrier=False,
        ports=Ports(
            inputs=(Port(name="like", type="?a[T, ...] @ r", streams=True),),
            outputs=(Port(name="noise", type="f32[T, width] @ r", streams=True),),
        ),
        attributes=(
            Attribute(name="width", type="int", required=True, minimum=1, is_fixed=True, doc="Numbers per element."),
        ),
        doc="A row of normal noise per element of a stream.",
    ),
    OpSignature(
        name="grid_positions",
        ports=Ports(
            inputs=(Port(name="tokens", type="tokens[P]"), _GRIDS),
            outputs=(Port(name="positions", type="i64[P, 3]", doc="In time, row and column."),),
        ),
        attributes=(
            _MARKED,
            Attribute(
                name="merge", type="int", default=1, minimum=1, is_fixed=True, doc="Patches per token along each side."
            ),
        ),
        doc="Positions of tokens, where runs of certain tokens stand for the patches of pictures (M-RoPE of Qwen2-VL).",
    ),
    OpSignature(
        name="voice",
        needs="voices",
        ports=Ports(
            inputs=(Port(name="name", type="text"),),
            outputs=(
                Port(name="token", type="tokens[1] < vocabulary"),
                Port(name="vector", type="f32[speaker]"),
                Port(name="reference", type="f32[C, mels]"),
            ),
        ),
        doc="What is known of a voice: a token, a vector and a reference clip.",
    ),
)
