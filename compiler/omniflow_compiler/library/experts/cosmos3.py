"""The experts of `specs/cosmos3`: one mixture of transformers that reads, writes and films, and two decoders.

Sizes come from the parts of a diffusers folder; the defaults are those of Cosmos 3 Omni.
"""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import Any

from omniflow_compiler.library.experts.flow_schedule import flow_schedule
from omniflow_compiler.library.experts.kv_bytes import kv_bytes
from omniflow_compiler.library.experts.wan import LATENT, TEMPORAL, VIDEO
from omniflow_compiler.library.signature import ExpertSignature, FromConfig, Port, Ports

_MIXTURE, _VAE, _SOUND = "transformer/config.json", "vae/config.json", "sound_tokenizer/config.json"
_WORDS = FromConfig(path="vocab_size", file=_MIXTURE, default=151936)
_SCALE = FromConfig(path="scale_factor_spatial", file=_VAE, default=16)


def _special(token: str) -> Callable[[Any], int | None]:
    """The id of a special token among a tokenizer's `added_tokens`."""

    def read(added: Any) -> int | None:
        found = [entry.get("id") for entry in added if isinstance(entry, dict) and entry.get("content") == token]
        return found[0] if found and isinstance(found[0], int) else None

    return read


def _added(token: str, default: int) -> FromConfig:
    return FromConfig(path="added_tokens", file="text_tokenizer/tokenizer.json", read=_special(token), default=default)


def _product(strides: Any) -> int | None:
    return prod(strides) if isinstance(strides, list) and all(isinstance(s, int) for s in strides) else None


def _parameters(config: Any) -> int | None:
    """Two sets of attention and feed-forward matrices per layer, and the vocabulary twice."""
    if not isinstance(config, dict):
        return None
    names = ("hidden_size", "intermediate_size", "num_hidden_layers", "num_attention_heads", "num_key_value_heads")
    sizes = [config.get(name) for name in (*names, "head_dim", "vocab_size")]
    if not all(isinstance(size, int) for size in sizes):
        return None
    width, inner, layers, heads, kv_heads, dim, words = (int(size) for size in sizes if isinstance(size, int))
    return 2 * layers * (width * dim * (2 * heads + 2 * kv_heads) + 3 * width * inner) + 2 * words * width


_READ = Ports(
    inputs=(Port(name="prompt", type="tokens[P] < vocabulary"),),
    outputs=(
        Port(name="tokens", type="tokens[T] < vocabulary", streams=True),
        Port(name="hidden", type="act[R, hidden]", streams=True, doc="Final hidden state of each token that was fed."),
        Port(name="embeds", type="act[R, hidden]", streams=True, doc="Input embedding of each token that was fed."),
        Port(name="kv", type="kv[K]", doc="Keys and values of all that was fed, by reference."),
    ),
)
_FILM = Ports(
    inputs=(
        Port(name="condition", type="kv[K]", doc="The text, as this component's understanding experts cached it."),
        Port(name="unconditional", type="kv[U]", required=False, doc="In place of `condition`, for `cfg`."),
        Port(name="frames", type="scalar"),
        Port(name="height", type="scalar", doc="Pixels, a multiple of a latent element's."),
        Port(name="width", type="scalar", doc="Pixels, likewise."),
        Port(name="fps", type="scalar", required=False, doc="Frames a second; 24 when nothing feeds it."),
        Port(name="sound", type="scalar", required=False, doc="Whether sound is denoised with the clip."),
    ),
    outputs=(
        Port(name="latents", type="latent[channels, T, H, W]"),
        Port(name="sound", type="latent[S, sound]", doc="Empty where no sound is wanted."),
    ),
)

SIGNATURES = (
    ExpertSignature(
        use="cosmos3.tokenizer", role="tokenizer", needs_source=True,
        sizes={
            "vocabulary": _WORDS, "end": _added("<|im_end|>", 151645),
            "vision_start": _added("<|vision_start|>", 151652),
        },
        doc="The byte-level BPE and chat template, from `text_tokenizer/`.",
    ),
    ExpertSignature(
        use="cosmos3.transformer", role="language_model", needs_source=True,
        num_parameters=FromConfig(path="", file=_MIXTURE, read=_parameters, default=16_000_000_000),
        sizes={
            "vocabulary": _WORDS, "hidden": FromConfig(path="hidden_size", file=_MIXTURE, default=4096),
            "channels": FromConfig(path="latent_channel", file=_MIXTURE, default=48),
            "sound": FromConfig(path="sound_dim", file=_MIXTURE, default=64),
            "scale": _SCALE, "temporal": TEMPORAL,
        },
        most=LATENT,
        serves={"ar_decode": _READ, "diffusion_denoise": _FILM},
        guided={"diffusion_denoise": "unconditional"}, prescribes={"diffusion_denoise": flow_schedule("trained")},
        kv_bytes_per_token=FromConfig(path="", file=_MIXTURE, read=kv_bytes, default=36 * 2 * 8 * 128 * 4),
        unit_seconds={"ar_prefill": 0.1, "ar_token": 0.03, "diffusion_step": 2.0},
        doc="A mixture of transformers, from `transformer/`: experts that understand and experts that generate.",
    ),
    ExpertSignature(
        use="cosmos3.vae", role="image_decoder", needs_source=True, num_parameters=127_000_000,
        sizes={
            "channels": FromConfig(path="z_dim", file=_VAE, default=48),
            "scale": _SCALE, "temporal": TEMPORAL,
        },
        serves={
            "vae_tile": Ports(
                inputs=(Port(name="latents", type="latent[channels, T, H, W]"),),
                outputs=(Port(name="video", type=VIDEO.partition(" @")[0]),),
            )
        },
        unit_seconds={"vae_tile": 2.0}, doc="The decoder of the causal autoencoder, from `vae/`.",
    ),
    ExpertSignature(
        use="cosmos3.sound", role="vocoder", needs_source=True, num_parameters=160_000_000,
        sizes={
            "sound": FromConfig(path="vocoder_input_dim", file=_SOUND, default=64),
            "rate": FromConfig(path="sampling_rate", file=_SOUND, default=48000),
            "channels": FromConfig(path="dec_out_channels", file=_SOUND, default=2),
            "hop": FromConfig(path="dec_strides", file=_SOUND, read=_product, default=1920),
        },
        serves={
            "audio_decode": Ports(
                inputs=(Port(name="latents", type="latent[S, sound]", streams=True),),
                outputs=(Port(name="audio", type="audio[{hop}*S, {channels}] @ {rate} Hz", streams=True),),
            )
        },
        unit_seconds={"audio_chunk": 0.1}, doc="The decoder of the sound autoencoder, from `sound_tokenizer/`.",
    ),
)  # fmt: skip
