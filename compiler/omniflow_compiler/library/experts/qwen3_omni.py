"""The experts of `specs/qwen3_omni`: a thinker over text, sounds and pictures, a talker in frames, a causal vocoder.

Sizes and special ids come from the checkpoint's config.json; the defaults are those of Qwen3-Omni-30B-A3B.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import prod
from typing import Any

from omniflow_compiler.library.experts.kv_bytes import kv_bytes
from omniflow_compiler.library.signature import ExpertSignature, FromConfig, Port, Ports

_THINKER, _TALKER, _CODE2WAV = "thinker_config", "talker_config", "code2wav_config"
_VISION = f"{_THINKER}.vision_config"
_SPECIALS = 1024  # the last ids of the talker, which are no codes


def _hop(section: Any) -> int | None:
    """Samples per frame: the product of all strides."""
    rates, ratios = _strides(section, "upsample_rates"), _strides(section, "upsampling_ratios")
    return None if rates is None or ratios is None else prod((*rates, *ratios))


def _lost(section: Any) -> int | None:
    """Samples that the last strides, with kernels of twice their size, hold back at the end of a clip."""
    rates = _strides(section, "upsample_rates")
    if rates is None:
        return None
    lost = 0
    for stride in rates:
        lost = lost * stride + stride
    return lost


def _strides(section: Any, name: str) -> list[int] | None:
    found = section.get(name) if isinstance(section, Mapping) else None
    return found if isinstance(found, list) and all(isinstance(stride, int) for stride in found) else None


def _patch(section: Mapping[str, Any]) -> int | None:
    """Numbers of a flattened patch: channels, frames and a square of pixels."""
    found = [section.get("in_channels", 3), section.get("temporal_patch_size"), section.get("patch_size")]
    if not all(isinstance(value, int) for value in found):
        return None
    channels, frames, side = (int(value) for value in found if value is not None)
    return channels * frames * side * side


def _id(path: str, default: int) -> FromConfig:
    return FromConfig(path=path, default=default)


_HIDDEN = _id(f"{_THINKER}.text_config.hidden_size", 2048)
_WIDTH = _id(f"{_TALKER}.text_config.hidden_size", 1024)
_GROUPS = _id(f"{_TALKER}.num_code_groups", 16)
_DEEP = FromConfig(path=f"{_THINKER}.vision_config.deepstack_visual_indexes", default=3, read=len)
_CODES = _id(f"{_TALKER}.text_config.vocab_size", 3072)

_PLACES = Port(
    name="positions", type="i64[P, 3]",
    doc="Where the prompt's rows are in time, row and column; what follows goes on behind the largest.",
)  # fmt: skip
_THINK = Ports(
    inputs=(
        Port(name="prompt_embeds", type="act[P, hidden]"),
        Port(name="prompt", type="tokens[P] < vocabulary", required=False, doc="What the repetition penalty counts."),
        _PLACES,
        Port(name="deep", type="act[P, deep, hidden]", required=False, doc="What the first layers add to the prompt's rows."),
    ),
    outputs=(
        Port(name="tokens", type="tokens[T] < vocabulary", streams=True),
        Port(name="embeds", type="act[R, hidden]", streams=True, doc="Input embedding of each token that was fed."),
        Port(name="prompt_accept", type="act[P, hidden]", streams=True, doc="Hidden states of the prompt at the layer that the talker listens to."),
    ),
)  # fmt: skip
_SPEAK = Ports(
    inputs=(
        Port(name="prompt_embeds", type="act[P, hidden]"),
        Port(name="condition", type="act[R, hidden]", streams=True, doc="A row per step, added to the last frame's."),
        _PLACES,
    ),
    outputs=(
        Port(name="tokens", type="tokens[T] < vocabulary @ 12.5 Hz", streams=True, doc="The first code of each frame."),
        Port(name="hidden", type="act[T, hidden]", streams=True, doc="Final hidden state of each frame that was fed."),
    ),
)
_PREDICT = Ports(
    inputs=(
        Port(name="hidden", type="act[1, hidden]", doc="The talker's hidden state."),
        Port(name="first", type="act[1, hidden]", doc="The embedding of the code that it chose."),
    ),
    outputs=(Port(name="tokens", type="tokens[G] < codes", streams=True),),
)

SIGNATURES = (
    ExpertSignature(
        use="qwen3_omni.thinker", role="language_model", serves={"ar_decode": _THINK}, needs_source=True,
        sizes={
            "hidden": _HIDDEN, "deep": _DEEP,
            "vocabulary": _id(f"{_THINKER}.text_config.vocab_size", 152064),
            "audio": _id(f"{_THINKER}.audio_token_id", 151675),
            "image": _id(f"{_THINKER}.image_token_id", 151655),
            "video": _id(f"{_THINKER}.video_token_id", 151656),
            "turn": _id("im_start_token_id", 151644),
            "end_of_turn": _id("im_end_token_id", 151645),
            "user": _id("user_token_id", 872),
            "assistant": _id("assistant_token_id", 77091),
            "speech_pad": _id("tts_pad_token_id", 151671),
            "speech_bos": _id("tts_bos_token_id", 151672),
            "speech_end": _id("tts_eos_token_id", 151673),
        },
        num_parameters=30_532_122_624,
        kv_bytes_per_token=FromConfig(path=f"{_THINKER}.text_config", read=kv_bytes, default=48 * 2 * 4 * 128 * 4),
        unit_seconds={"ar_prefill": 1.0, "ar_token": 0.5},
        doc="The language model of the thinker, a mixture of experts; its towers are experts of their own.",
    ),
    ExpertSignature(
        use="qwen3_omni.audio", role="audio_encoder", needs_source=True,
        serves={"encode": Ports(
            inputs=(Port(name="features", type="f32[bands, F]", doc="Log-mel frames of one sound, 100 a second."),),
            outputs=(Port(name="embeds", type="act[A, hidden]"),),
        )},
        sizes={
            "hidden": _HIDDEN, "bands": _id(f"{_THINKER}.audio_config.num_mel_bins", 128),
            "chunk": FromConfig(path=f"{_THINKER}.audio_config.n_window", default=100, read=lambda half: 2 * half),
            "rows": FromConfig(path=f"{_THINKER}.audio_config.n_window", default=13, read=lambda half: -(-half // 4)),
        },
        most={"A": "{rows}*F/{chunk} + 1"},
        num_parameters=650_000_000, unit_seconds={"encoder_chunk": 1.0},
        doc="The thinker's ears: 13 embeddings a second.",
    ),
    ExpertSignature(
        use="qwen3_omni.vision", role="vision_encoder", needs_source=True,
        serves={"encode": Ports(
            inputs=(
                Port(name="pixels", type="f32[Q, patch]", doc="Flattened patches of one picture, normalised."),
                Port(name="grid", type="i64[3]", doc="Frames, rows and columns of patches."),
            ),
            outputs=(
                Port(name="embeds", type="act[Q/{square}, hidden]"),
                Port(name="deep", type="act[Q/{square}, deep, hidden]", doc="What the thinker's first layers add."),
            ),
        )},
        sizes={
            "hidden": _HIDDEN, "deep": _DEEP, "merge": _id(f"{_VISION}.spatial_merge_size", 2),
            "patch": FromConfig(path=_VISION, default=1536, read=_patch),
            "square": FromConfig(path=f"{_VISION}.spatial_merge_size", default=4, read=lambda side: side**2),
        },
        num_parameters=540_000_000, unit_seconds={"encoder_chunk": 1.0},
        doc="The thinker's eyes: one embedding per square of patches, and features for its first layers.",
    ),
    ExpertSignature(
        use="qwen3_omni.talker", role="language_model", serves={"ar_decode": _SPEAK}, needs_source=True,
        sizes={
            "hidden": _WIDTH, "outer": _id(f"{_TALKER}.thinker_hidden_size", 2048), "vocabulary": _CODES,
            "first_special": FromConfig(path=f"{_TALKER}.text_config.vocab_size", default=2048, read=lambda v: v - _SPECIALS),
            "codec_pad": _id(f"{_TALKER}.codec_pad_id", 2148),
            "codec_bos": _id(f"{_TALKER}.codec_bos_id", 2149),
            "codec_end": _id(f"{_TALKER}.codec_eos_token_id", 2150),
            "no_think": _id(f"{_TALKER}.codec_nothink_id", 2155),
            "think_bos": _id(f"{_TALKER}.codec_think_bos_id", 2156),
            "think_end": _id(f"{_TALKER}.codec_think_eos_id", 2157),
        },
        num_parameters=3_100_000_000,
        kv_bytes_per_token=FromConfig(path=f"{_TALKER}.text_config", read=kv_bytes, default=20 * 2 * 2 * 128 * 4),
        unit_seconds={"ar_prefill": 0.3, "ar_token": 0.1},
        doc="The speech model: the first code of 12.5 frames a second, and the projections into its space.",
    ),
    ExpertSignature(
        use="qwen3_omni.predictor", role="code_predictor", serves={"ar_decode": _PREDICT}, needs_source=True,
        sizes={
            "hidden": _id(f"{_TALKER}.code_predictor_config.hidden_size", 1024),
            "codes": _id(f"{_TALKER}.code_predictor_config.vocab_size", 2048),
            "further": FromConfig(path=f"{_TALKER}.num_code_groups", default=15, read=lambda v: v - 1),
        },
        num_parameters=80_000_000,
        kv_bytes_per_token=FromConfig(path=f"{_TALKER}.code_predictor_config", read=kv_bytes, default=5 * 2 * 8 * 128 * 4),
        unit_seconds={"ar_prefill": 0.01, "ar_token": 0.01},
        doc="The further codes of a frame, one after another.",
    ),
    ExpertSignature(
        use="qwen3_omni.voices", role="voices", needs_source=True, sizes={"vocabulary": _CODES},
        doc="The voices of the talker, a code each.",
    ),
    ExpertSignature(
        use="qwen3_omni.code2wav", role="vocoder", needs_source=True,
        serves={"audio_decode": Ports(
            inputs=(Port(name="codes", type="codes[F, groups]", streams=True),),
            outputs=(Port(name="audio", type="audio[{hop}*F - lost] @ 24 kHz", streams=True),),
        )},
        sizes={
            "groups": _GROUPS,
            "hop": FromConfig(path=_CODE2WAV, default=1920, read=_hop),
            "lost": FromConfig(path=_CODE2WAV, default=555, read=_lost),
        },
        num_parameters=205_000_000, unit_seconds={"audio_chunk": 0.2},
        doc="Frames of codes to 24 kHz samples; it carries its past from chunk to chunk, so chunks equal the whole.",
    ),
)  # fmt: skip
