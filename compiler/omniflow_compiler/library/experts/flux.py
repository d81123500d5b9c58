"""The experts of `specs/flux`: CLIP and T5 read a prompt, a multimodal transformer denoises, an autoencoder paints.

Sizes come from the parts of a diffusers folder; the defaults are those of FLUX.1-dev.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from omniflow_compiler.library.experts.flow_schedule import flow_schedule
from omniflow_compiler.library.signature import ExpertSignature, FromConfig, Port, Ports

_CLIP, _T5 = "text_encoder/config.json", "text_encoder_2/config.json"
_DIT, _VAE = "transformer/config.json", "vae/config.json"
_CLIP_WORDS = FromConfig(path="vocab_size", file=_CLIP, default=49408)
_T5_WORDS = FromConfig(path="vocab_size", file=_T5, default=32128)


def halvings(channels: Any) -> int | None:
    """Pixels per latent element of an autoencoder with these `block_out_channels`: all levels but one halve."""
    return 2 ** (len(channels) - 1) if isinstance(channels, list) and channels else None


def _packed(channels: Any) -> int | None:
    """Latent channels, of which the transformer sees squares of two by two."""
    return channels // 4 if isinstance(channels, int) else None


def _dit_parameters(config: Any) -> int | None:
    """Double blocks have 18 square matrices' worth and 12 of modulation, single ones 9 and 3 (of width**2 each)."""
    if not isinstance(config, Mapping):
        return None
    names = ("num_attention_heads", "attention_head_dim", "num_layers", "num_single_layers")
    heads, head, double, single = (config.get(name) for name in names)
    if not all(isinstance(value, int) for value in (heads, head, double, single)):
        return None
    width = int(heads) * int(head)  # type: ignore[arg-type]
    return width * width * (36 * int(double) + 15 * int(single))  # type: ignore[arg-type]


def _tokenizer(use: str, words: FromConfig, doc: str) -> ExpertSignature:
    return ExpertSignature(use=use, role="tokenizer", sizes={"vocabulary": words}, needs_source=True, doc=doc)


_SCALE = FromConfig(path="block_out_channels", file=_VAE, read=halvings, default=8)
_DENOISE = Ports(
    inputs=(
        Port(name="condition", type="act[P, text]", doc="What T5 made of the prompt, one row per token, padding too."),
        Port(name="pooled", type="act[summary]", doc="What CLIP made of the prompt."),
        Port(name="unconditional", type="act[U, text]", required=False, doc="In place of `condition`, for `cfg`."),
        Port(name="unconditional_pooled", type="act[summary]", required=False, doc="In place of `pooled`, for `cfg`."),
        Port(name="guidance", type="scalar", required=False, doc="Of checkpoints that were distilled with it."),
        Port(name="height", type="scalar", doc="Pixels; cut to a multiple of two latent elements."),
        Port(name="width", type="scalar", doc="Pixels."),
    ),
    outputs=(Port(name="latents", type="latent[channels, H, W]"),),
)

SIGNATURES = (
    _tokenizer("flux.clip_tokenizer", _CLIP_WORDS, "The byte-level BPE of CLIP, from `tokenizer/`."),
    _tokenizer("flux.t5_tokenizer", _T5_WORDS, "The unigram tokenizer of T5, from `tokenizer_2/`."),
    ExpertSignature(
        use="flux.clip", role="text_encoder", needs_source=True, num_parameters=123_060_480,
        sizes={"vocabulary": _CLIP_WORDS, "summary": FromConfig(path="hidden_size", file=_CLIP, default=768)},
        serves={
            "encode": Ports(
                inputs=(Port(name="tokens", type="tokens[P] < vocabulary"),),
                outputs=(Port(name="pooled", type="act[summary]", doc="The state of the end of text."),),
            )
        },
        unit_seconds={"encoder_chunk": 0.01}, doc="CLIP's text model, from `text_encoder/`.",
    ),
    ExpertSignature(
        use="flux.t5", role="text_encoder", needs_source=True, num_parameters=4_762_310_656,
        sizes={"vocabulary": _T5_WORDS, "text": FromConfig(path="d_model", file=_T5, default=4096)},
        serves={
            "encode": Ports(
                inputs=(Port(name="tokens", type="tokens[P] < vocabulary"),),
                outputs=(Port(name="embeds", type="act[P, text]"),),
            )
        },
        unit_seconds={"encoder_chunk": 0.1}, doc="T5's encoder, from `text_encoder_2/`; padding is read like text.",
    ),
    ExpertSignature(
        use="flux.transformer", role="denoiser", needs_source=True,
        num_parameters=FromConfig(path="", file=_DIT, read=_dit_parameters, default=11_901_408_320),
        sizes={
            "channels": FromConfig(path="in_channels", file=_DIT, read=_packed, default=16),
            "text": FromConfig(path="joint_attention_dim", file=_DIT, default=4096),
            "summary": FromConfig(path="pooled_projection_dim", file=_DIT, default=768),
            "scale": _SCALE,
        },
        most={"H": "height/{scale}", "W": "width/{scale}"},
        serves={"diffusion_denoise": _DENOISE}, guided={"diffusion_denoise": "unconditional"},
        prescribes={"diffusion_denoise": flow_schedule("unit")},
        unit_seconds={"diffusion_step": 0.5}, doc="FLUX's transformer over text and picture, from `transformer/`.",
    ),
    ExpertSignature(
        use="flux.vae", role="image_decoder", needs_source=True, num_parameters=83_819_683,
        sizes={
            "channels": FromConfig(path="latent_channels", file=_VAE, default=16),
            "scale": _SCALE,
        },
        serves={
            "vae_tile": Ports(
                inputs=(Port(name="latents", type="latent[channels, H, W]"),),
                outputs=(Port(name="image", type="image[{scale}*H, {scale}*W, 3]"),),
            )
        },
        unit_seconds={"vae_tile": 0.2}, doc="The decoder of the autoencoder, from `vae/`.",
    ),
)  # fmt: skip
