"""The experts of `specs/qwen2_5_omni`: a thinker over text, sounds and pictures, a talker, a flow and a vocoder.

Sizes and special ids come from the checkpoint's config.json; the defaults are those of Qwen2.5-Omni-7B.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

from omniflow_compiler.library.experts.kv_bytes import kv_bytes
from omniflow_compiler.library.signature import ExpertSignature, FromConfig, Port, Ports

Section = Mapping[str, Any]


def _product(*names: str, plus: int = 0) -> Callable[[Section], int | None]:
    """Reads the product of some fields of a section, plus a constant."""

    def read(section: Section) -> int | None:
        values = [section.get(name) for name in names]
        return plus + math.prod(v for v in values if isinstance(v, int)) if None not in values else None

    return read


def _language_model(section: Section) -> int | None:
    """Parameters of a Qwen2 with its input table (and projection) and its head."""
    try:
        width, inner, layers = (section[n] for n in ("hidden_size", "intermediate_size", "num_hidden_layers"))
        heads, kv_heads, ids = (section[n] for n in ("num_attention_heads", "num_key_value_heads", "vocab_size"))
    except KeyError:
        return None
    head = section.get("head_dim", width // heads)
    outer = section.get("embedding_size")
    attention = width * head * (2 * heads + 2 * kv_heads) + head * (heads + 2 * kv_heads)
    tables = ids * width + ids * (outer or width) + ((outer + 1) * width if outer else 0)
    return int(tables + layers * (attention + 3 * width * inner + 2 * width) + width)


def _transformer(width: str, inner: str, layers: str, matrices: int = 2) -> Callable[[Section], int | None]:
    """Reads about how many parameters a tower has: its layers' matrices."""

    def read(section: Section) -> int | None:
        found = [section.get(name) for name in (width, inner, layers)]
        if not all(isinstance(value, int) for value in found):
            return None
        size, hidden, depth = (int(value) for value in found if value is not None)
        return depth * (4 * size * size + matrices * size * hidden)

    return read


def _patch(section: Section) -> int | None:
    """Numbers of a flattened patch: channels, frames and a square of pixels."""
    channels = section.get("in_channels", section.get("in_chans", 3))
    found = [channels, section.get("temporal_patch_size"), section.get("patch_size")]
    if not all(isinstance(value, int) for value in found):
        return None
    channels, frames, side = (int(value) for value in found if value is not None)
    return channels * frames * side * side


def _flow(section: Section) -> int | None:
    """About: attention, feed-forward part and modulation of every block."""
    width, depth, factor = (section.get(name) for name in ("hidden_size", "num_hidden_layers", "ff_mult"))
    if not isinstance(width, int) or not isinstance(depth, int) or not isinstance(factor, int):
        return None
    return depth * width * width * (4 + 2 * factor + 6)


_THINKER, _TALKER = "thinker_config", "talker_config"
_VISION = f"{_THINKER}.vision_config"
_DIT, _BIGVGAN = "token2wav_config.dit_config", "token2wav_config.bigvgan_config"
_HIDDEN = FromConfig(path=f"{_THINKER}.text_config.hidden_size", default=3584)
_VOCABULARY = FromConfig(path=f"{_THINKER}.text_config.vocab_size", default=152064)
_MELS = FromConfig(path=f"{_DIT}.mel_dim", default=80)
_SPEAKER = FromConfig(path=f"{_DIT}.enc_emb_dim", default=192)
_TIMBRE = FromConfig(path=f"{_DIT}.enc_dim", default=128)

_PLACES = Port(
    name="positions", type="i64[P, 3]", required=False,
    doc="Where the prompt's rows are in time, row and column; what follows goes on behind the largest.",
)  # fmt: skip
_THINK = Ports(
    inputs=(
        Port(name="prompt_embeds", type="act[P, hidden]"),
        Port(name="prompt", type="tokens[P] < vocabulary", required=False, doc="What the repetition penalty counts."),
        _PLACES,
    ),
    outputs=(
        Port(name="tokens", type="tokens[T] < vocabulary", streams=True),
        Port(name="hidden", type="act[R, hidden]", streams=True, doc="Final hidden state of each token that was fed."),
        Port(name="embeds", type="act[R, hidden]", streams=True, doc="Input embedding of each token that was fed."),
        Port(name="prompt_hidden", type="act[P, hidden]", streams=True, doc="Final hidden states of the prompt."),
    ),
)
_SPEAK = Ports(
    inputs=(
        Port(name="prompt_embeds", type="act[P, hidden]", doc="In the thinker's space."),
        Port(name="prompt", type="tokens[P] < vocabulary", doc="What the repetition penalty counts."),
        Port(name="condition", type="act[R, hidden]", streams=True, doc="A row per step, added to the last code's."),
        Port(name="positions", type="i64[O, 3]", required=False, doc=_PLACES.doc),
    ),
    outputs=(Port(name="tokens", type="tokens[T] < vocabulary @ 50 Hz", streams=True),),
)
_MEL = Ports(
    inputs=(
        Port(name="codes", type="tokens[M] < codes @ 50 Hz"),
        Port(name="speaker", type="f32[speaker]"),
        Port(name="timbre", type="act[timbre]"),
        Port(name="neutral", type="act[timbre]", doc="The timbre of nobody, for the branch that guidance leaves."),
        Port(name="noise", type="f32[M, noise]", required=False, doc="Where to start, a row per code; else drawn."),
    ),
    outputs=(Port(name="latents", type="act[2*M, mels] @ 100 Hz"),),
)

SIGNATURES = (
    ExpertSignature(
        use="qwen2_5_omni.thinker", role="language_model", serves={"ar_decode": _THINK}, needs_source=True,
        sizes={
            "hidden": _HIDDEN, "vocabulary": _VOCABULARY,
            "audio": FromConfig(path=f"{_THINKER}.audio_token_index", default=151646),
            "image": FromConfig(path=f"{_THINKER}.image_token_index", default=151655),
            "video": FromConfig(path=f"{_THINKER}.video_token_index", default=151656),
            "end_of_turn": FromConfig(path=f"{_THINKER}.text_config.eos_token_id", default=151645),
            "text_end": FromConfig(path=f"{_TALKER}.tts_text_end_token_id", default=151861),
            "text_pad": FromConfig(path=f"{_TALKER}.tts_text_pad_token_id", default=151859),
        },
        num_parameters=FromConfig(path=f"{_THINKER}.text_config", default=7_615_616_512, read=_language_model),
        kv_bytes_per_token=FromConfig(path=f"{_THINKER}.text_config", read=kv_bytes, default=28 * 2 * 4 * 128 * 4),
        unit_seconds={"ar_prefill": 1.0, "ar_token": 0.5},
        doc="The language model of the thinker; its towers are experts of their own.",
    ),
    ExpertSignature(
        use="qwen2_5_omni.audio", role="audio_encoder", needs_source=True,
        serves={"encode": Ports(
            inputs=(Port(name="features", type="f32[bands, F]", doc="Log-mel frames of one sound, 100 a second."),),
            outputs=(Port(name="embeds", type="act[A, hidden]"),),
        )},
        sizes={"hidden": _HIDDEN, "bands": FromConfig(path=f"{_THINKER}.audio_config.num_mel_bins", default=128)},
        most={"A": "F/4 + 1"},
        num_parameters=FromConfig(
            path=f"{_THINKER}.audio_config", default=637_000_000,
            read=_transformer("d_model", "encoder_ffn_dim", "encoder_layers"),
        ),
        unit_seconds={"encoder_chunk": 1.0},
        doc="The thinker's ears: one embedding per 40 ms.",
    ),
    ExpertSignature(
        use="qwen2_5_omni.vision", role="vision_encoder", needs_source=True,
        serves={"encode": Ports(
            inputs=(
                Port(name="pixels", type="f32[Q, patch]", doc="Flattened patches of one picture, normalised."),
                Port(name="grid", type="i64[3]", doc="Frames, rows and columns of patches."),
            ),
            outputs=(Port(name="embeds", type="act[Q/{square}, hidden]"),),
        )},
        sizes={
            "hidden": _HIDDEN, "patch": FromConfig(path=_VISION, default=1176, read=_patch),
            "square": FromConfig(path=f"{_VISION}.spatial_merge_size", default=4, read=lambda side: side**2),
            "merge": FromConfig(path=f"{_VISION}.spatial_merge_size", default=2),
        },
        num_parameters=FromConfig(
            path=f"{_THINKER}.vision_config", default=676_000_000,
            read=_transformer("hidden_size", "intermediate_size", "depth", matrices=3),
        ),
        unit_seconds={"encoder_chunk": 1.0},
        doc="The thinker's eyes: one embedding per square of patches.",
    ),
    ExpertSignature(
        use="qwen2_5_omni.talker", role="language_model", serves={"ar_decode": _SPEAK}, needs_source=True,
        sizes={
            "hidden": FromConfig(path=f"{_TALKER}.embedding_size", default=3584),
            "vocabulary": FromConfig(path=f"{_TALKER}.vocab_size", default=8448),
            "codec_pad": FromConfig(path=f"{_TALKER}.tts_codec_pad_token_id", default=8292),
            "codec_bos": FromConfig(path=f"{_TALKER}.tts_codec_start_token_id", default=8293),
            "codec_end": FromConfig(path=f"{_TALKER}.tts_codec_end_token_id", default=8294),
            "codec_mask": FromConfig(path=f"{_TALKER}.tts_codec_mask_token_id", default=8296),
        },
        num_parameters=FromConfig(path=_TALKER, default=1_350_000_000, read=_language_model),
        kv_bytes_per_token=FromConfig(path=_TALKER, read=kv_bytes, default=24 * 2 * 4 * 128 * 4),
        unit_seconds={"ar_prefill": 0.3, "ar_token": 0.1},
        doc="The speech model: rows of the thinker's space in, 50 codec ids a second out.",
    ),
    ExpertSignature(
        use="qwen2_5_omni.voices", role="voices", needs_source=True, dtypes=("float32",),
        sizes={"vocabulary": _VOCABULARY, "speaker": _SPEAKER, "mels": _MELS},
        doc="The voices of `spk_dict.pt`: a text id, a speaker vector and a reference clip each.",
    ),
    ExpertSignature(
        use="qwen2_5_omni.speaker", role="speaker_encoder", needs_source=True,
        serves={"encode": Ports(
            inputs=(Port(name="mel", type="f32[C, mels]"),),
            outputs=(Port(name="timbre", type="act[timbre]"), Port(name="neutral", type="act[timbre]")),
        )},
        sizes={"mels": _MELS, "timbre": _TIMBRE}, num_parameters=1_500_000, unit_seconds={"encoder_chunk": 0.02},
        doc="A reference clip to the timbre that the flow takes.",
    ),
    ExpertSignature(
        use="qwen2_5_omni.dit", role="denoiser", serves={"diffusion_denoise": _MEL}, needs_source=True,
        sizes={
            "codes": FromConfig(path=_DIT, default=8194, read=_product("num_embeds", plus=1)),
            "noise": FromConfig(path=_DIT, default=160, read=_product("repeats", "mel_dim")),
            "mels": _MELS, "speaker": _SPEAKER, "timbre": _TIMBRE,
        },
        num_parameters=FromConfig(path=_DIT, default=330_000_000, read=_flow),
        unit_seconds={"diffusion_step": 0.5}, guided={"diffusion_denoise": "neutral"},
        doc="The flow transformer: codes and a voice to a mel spectrogram, in blocks of frames.",
    ),
    ExpertSignature(
        use="qwen2_5_omni.bigvgan", role="vocoder", needs_source=True, hop=240,
        serves={"audio_decode": Ports(
            inputs=(Port(name="mel", type="f32[F, mels] @ 100 Hz", streams=True, left=40, right=40),),
            outputs=(Port(name="audio", type="audio[S] @ 24 kHz", streams=True),),
        )},
        sizes={"mels": FromConfig(path=f"{_BIGVGAN}.mel_dim", default=80)},
        num_parameters=112_000_000, unit_seconds={"audio_chunk": 1.0},
        doc="Mel frames to 24 kHz samples.",
    ),
)  # fmt: skip
