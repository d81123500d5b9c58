"""Ops that prepare sounds and pictures for encoders, and make room for them among tokens."""

from __future__ import annotations

from omniflow_compiler.library.signature import Attribute, OpSignature, Port, Ports

SIGNATURES = (
    OpSignature(
        name="log_mel",
        needs="feature_extractor",
        ports=Ports(
            inputs=(Port(name="samples", type="audio[S] @ 16 kHz"),),
            outputs=(Port(name="features", type="f32[bands, F]", doc="A frame per `hop` samples."),),
        ),
        attributes=(
            Attribute(
                name="end",
                type="text",
                default="silence",
                choices=("silence", "mirror"),
                doc="What the last frames see behind the sound; `mirror` leaves out a frame that is not whole.",
            ),
        ),
        most={"F": "S/{hop} + 1"},
        seconds=2e-3,
        doc="Log-mel frames of a sound.",
    ),
    OpSignature(
        name="patches",
        needs="image_processor",
        ports=Ports(
            inputs=(Port(name="picture", type="image:u8[H, W, 3]"),),
            outputs=(
                Port(name="pixels", type="f32[Q, patch]", doc="Flattened patches, normalised, square by square."),
                Port(name="grid", type="i64[3]", doc="Frames, rows and columns of patches."),
            ),
        ),
        most={"Q": "{most}"},
        seconds=10e-3,
        doc="Resizes a picture to whole patches and cuts it.",
    ),
    OpSignature(
        name="repeat_at",
        ports=Ports(
            inputs=(
                Port(name="tokens", type="tokens[P]"),
                Port(name="like", type="?a[N*, R, ...]", doc="An item per token that is meant."),
            ),
            outputs=(Port(name="tokens", type="tokens[P2]"),),
        ),
        attributes=(
            Attribute(name="ids", type="ids", required=True, is_fixed=True, doc="Tokens whose places are meant."),
        ),
        doc="Repeats certain tokens, each as often as its item has rows.",
    ),
)
