"""Ops that prepare what picture and video models read."""

from __future__ import annotations

from omniflow_compiler.library.signature import Attribute, OpSignature, Port, Ports

SIGNATURES = (
    OpSignature(
        name="tokenize_fixed", needs="tokenizer",
        ports=Ports(
            inputs=(Port(name="text", type="text"),),
            outputs=(
                Port(name="tokens", type="tokens[P] < vocabulary"),
                Port(name="mask", type="i64[P]", doc="1 for text, 0 for padding."),
            ),
        ),
        attributes=(
            Attribute(name="length", type="int", default=0, minimum=0, maximum=1 << 20, is_fixed=True, doc="Tokens, special ones included; 0 is the tokenizer's own most."),
        ),
        doc="Tokenizes plain text to a fixed number of tokens: longer text is cut, shorter text padded.",
    ),
    OpSignature(
        name="caption",
        ports=Ports(
            inputs=(
                Port(name="text", type="text"),
                *(Port(name=name, type="scalar", required=False) for name in ("frames", "fps", "height", "width")),
            ),
            outputs=(Port(name="text", type="text"),),
        ),
        attributes=(
            Attribute(name="template", type="text", required=True, is_fixed=True, doc="A Jinja template over `text` and the scalars that are connected."),
        ),
        doc="Writes what is to be painted or filmed into a text, as the model was trained to read it.",
    ),
)  # fmt: skip
