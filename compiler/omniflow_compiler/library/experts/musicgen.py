"""The experts of `specs/musicgen`: T5 reads a text, a decoder writes the codes of four codebooks, EnCodec plays them.

Sizes and special ids come from the checkpoint's config.json; the defaults are those of musicgen-small.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import prod
from typing import Any

from omniflow_compiler.library.experts.kv_bytes import kv_bytes
from omniflow_compiler.library.signature import ExpertSignature, FromConfig, Port, Ports


def _hop(ratios: Any) -> int | None:
    """Samples per frame: the product of the ratios."""
    is_known = isinstance(ratios, list) and all(isinstance(ratio, int) and ratio > 0 for ratio in ratios)
    return prod(ratios) if is_known else None


def _parameters(config: Any) -> int | None:
    """Eight square matrices in each layer's two attentions, two of the feed-forward's width, a table and a head each."""
    if not isinstance(config, Mapping):
        return None
    names = ("hidden_size", "ffn_dim", "num_hidden_layers", "num_codebooks", "vocab_size")
    sizes = [size for name in names if isinstance(size := config.get(name), int) and size > 0]
    if len(sizes) < len(names):
        return None
    width, inner, layers, codebooks, codes = sizes
    return layers * (8 * width * width + 2 * width * inner) + 2 * codebooks * codes * width


_TEXT = FromConfig(path="text_encoder.d_model", default=768)
_WORDS = FromConfig(path="text_encoder.vocab_size", default=32128)
_HOP = FromConfig(path="audio_encoder.upsampling_ratios", default=640, read=_hop)
_RATE = FromConfig(path="audio_encoder.sampling_rate", default=32_000)
_CODES = FromConfig(path="decoder.vocab_size", default=2048)


def _decoder(use: str, codebooks: int, doc: str) -> ExpertSignature:
    return ExpertSignature(
        use=use, role="code_writer", needs_source=True, codebooks="codebooks",
        serves={"ar_decode": Ports(
            inputs=(Port(name="text", type="act[P, text]", doc="What it attends to, a row per token."),),
            outputs=(Port(name="codes", type="codes[T, codebooks] @ 50 Hz", streams=True),),
        )},
        sizes={"text": _TEXT, "codes": _CODES, "codebooks": _codebooks(codebooks)},
        num_parameters=FromConfig(path="decoder", read=_parameters, default=420_000_000),
        kv_bytes_per_token=FromConfig(path="decoder", read=kv_bytes, default=24 * 2 * 1024 * 4),
        guided={"ar_decode": ""}, unit_seconds={"ar_prefill": 0.05, "ar_token": 0.05}, doc=doc,
    )  # fmt: skip


def _codec(use: str, codebooks: int, audio: str, doc: str) -> ExpertSignature:
    return ExpertSignature(
        use=use, role="vocoder", needs_source=True, num_parameters=29_000_000,
        sizes={"codebooks": _codebooks(codebooks), "hop": _HOP, "rate": _RATE},
        serves={"audio_decode": Ports(
            inputs=(Port(name="codes", type="codes[F, codebooks]", streams=True),),
            outputs=(Port(name="audio", type=audio, streams=True),),
        )},
        unit_seconds={"audio_chunk": 0.1}, doc=doc,
    )  # fmt: skip


def _codebooks(default: int) -> FromConfig:
    return FromConfig(path="decoder.num_codebooks", default=default)


SIGNATURES = (
    ExpertSignature(
        use="musicgen.t5", role="text_encoder", needs_source=True, num_parameters=109_628_544,
        sizes={
            "vocabulary": _WORDS, "text": _TEXT,
            "text_end": FromConfig(path="text_encoder.eos_token_id", default=1),
        },
        serves={"encode": Ports(
            inputs=(Port(name="tokens", type="tokens[P] < vocabulary"),),
            outputs=(Port(name="embeds", type="act[P, text]"),),
        )},
        unit_seconds={"encoder_chunk": 0.02}, doc="The encoder of T5, a part of the checkpoint.",
    ),
    _decoder(
        "musicgen.decoder", 4,
        "A decoder that attends to a text and chooses a code of every codebook a step; guidance leaves the text out.",
    ),
    _decoder("musicgen.stereo_decoder", 8, "The same with codebooks of the left and the right, in turn."),
    _codec(
        "musicgen.encodec", 4, "audio[{hop}*F] @ {rate} Hz",
        "The decoder of EnCodec. It holds back what still depends on later frames, so chunks equal the whole.",
    ),
    _codec(
        "musicgen.encodec_stereo", 8, "audio[{hop}*F, 2] @ {rate} Hz",
        "The same for two channels, whose codes alternate within a frame.",
    ),
)  # fmt: skip
