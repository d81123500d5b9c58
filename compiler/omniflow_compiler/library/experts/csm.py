"""The experts of `specs/csm`: a backbone over text and frames, a depth decoder inside each frame, the Mimi codec.

Sizes and special ids come from the checkpoint's config.json; the defaults are those of csm-1b.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import ceil, prod
from typing import Any

from omniflow_compiler.library.experts.kv_bytes import kv_bytes
from omniflow_compiler.library.signature import ExpertSignature, FromConfig, Port, Ports


def _hop(codec: Any) -> int | None:
    """Samples per frame: the product of all ratios, and of the steps that a frame is stretched to."""
    if not isinstance(codec, Mapping):
        return None
    ratios = codec.get("upsampling_ratios") or [8, 6, 5, 4]
    rate, sampling = codec.get("frame_rate", codec.get("_frame_rate")), codec.get("sampling_rate", 24_000)
    if not isinstance(ratios, list) or not all(isinstance(ratio, int) and ratio > 0 for ratio in ratios):
        return None
    if not isinstance(rate, int | float) or rate <= 0 or not isinstance(sampling, int):
        return 2 * prod(ratios)
    return prod(ratios) * int(ceil(sampling / prod(ratios)) / rate)


_CODES = FromConfig(path="vocab_size", default=2051)
_GROUPS = FromConfig(path="num_codebooks", default=32)
_HIDDEN = FromConfig(path="hidden_size", default=2048)
_KNOWN = FromConfig(path="codec_config.codebook_size", default=2048)

SIGNATURES = (
    ExpertSignature(
        use="csm.backbone", role="language_model", needs_source=True,
        serves={"ar_decode": Ports(
            inputs=(Port(name="prompt_embeds", type="act[P, hidden]"),),
            outputs=(
                Port(name="tokens", type="tokens[T] < codes @ 12.5 Hz", streams=True, doc="The first code of each frame."),
                Port(name="hidden", type="act[T, hidden]", streams=True, doc="Final hidden state of each frame that was fed."),
            ),
        )},
        sizes={
            "hidden": _HIDDEN, "codes": _CODES, "known_codes": _KNOWN,
            "vocabulary": FromConfig(path="text_vocab_size", default=128256),
            "codec_end": FromConfig(path="codebook_eos_token_id", default=0),
            "text_bos": FromConfig(path="bos_token_id", default=128000),
            "text_end": FromConfig(path="eos_token_id", default=128001),
        },
        num_parameters=1_230_000_000,
        kv_bytes_per_token=FromConfig(path="", read=kv_bytes, default=16 * 2 * 8 * 64 * 4),
        unit_seconds={"ar_prefill": 0.5, "ar_token": 0.2},
        doc="A Llama over text and frames: the first code of 12.5 frames a second.",
    ),
    ExpertSignature(
        use="csm.depth", role="code_predictor", needs_source=True,
        serves={"ar_decode": Ports(
            inputs=(
                Port(name="hidden", type="act[1, hidden]", doc="The backbone's hidden state."),
                Port(name="first", type="tokens[1] < codes", doc="The code that it chose."),
            ),
            outputs=(Port(name="tokens", type="tokens[G] < codes", streams=True),),
        )},
        sizes={
            "hidden": FromConfig(path="depth_decoder_config.backbone_hidden_size", default=2048),
            "codes": FromConfig(path="depth_decoder_config.vocab_size", default=2051), "known_codes": _KNOWN,
            "further": FromConfig(path="num_codebooks", default=31, read=lambda v: v - 1),
        },
        num_parameters=320_000_000,
        kv_bytes_per_token=FromConfig(path="depth_decoder_config", read=kv_bytes, default=4 * 2 * 2 * 128 * 4),
        unit_seconds={"ar_prefill": 0.01, "ar_token": 0.01},
        doc="A small Llama inside each frame: the further codes, each through a head of its own.",
    ),
    ExpertSignature(
        use="csm.mimi", role="vocoder", needs_source=True,
        serves={"audio_decode": Ports(
            inputs=(Port(name="codes", type="codes[F, groups]", streams=True),),
            outputs=(Port(name="audio", type="audio[{hop}*F] @ 24 kHz", streams=True),),
        )},
        sizes={"groups": _GROUPS, "hop": FromConfig(path="codec_config", default=1920, read=_hop)},
        num_parameters=45_000_000, unit_seconds={"audio_chunk": 0.1},
        doc="The decoder of the Mimi codec, strictly causal; it carries its past, so chunks equal the whole.",
    ),
)  # fmt: skip
