"""The experts of `specs/wan`: UMT5 reads a prompt, a transformer denoises a clip, a causal autoencoder paints it.

Sizes come from the parts of a diffusers folder; the defaults are those of Wan2.1-T2V-14B.
"""

from __future__ import annotations

from typing import Any

from omniflow_compiler.library.experts.flow_schedule import flow_schedule
from omniflow_compiler.library.signature import ExpertSignature, FromConfig, Port, Ports

_UMT5, _DIT, _VAE = "text_encoder/config.json", "transformer/config.json", "vae/config.json"
_WORDS = FromConfig(path="vocab_size", file=_UMT5, default=256384)


def dit_parameters(config: Any) -> int | None:
    """Each block has eight square matrices for its two attentions and two of the feed-forward's width."""
    if not isinstance(config, dict):
        return None
    names = ("num_attention_heads", "attention_head_dim", "num_layers", "ffn_dim")
    heads, head, layers, inner = (config.get(name) for name in names)
    if not (isinstance(heads, int) and isinstance(head, int) and isinstance(layers, int) and isinstance(inner, int)):
        return None
    width = heads * head
    return layers * (8 * width * width + 2 * width * inner)


SCALE = FromConfig(path="scale_factor_spatial", file=_VAE, default=8)
TEMPORAL = FromConfig(path="scale_factor_temporal", file=_VAE, default=4)
LATENT = {"T": "frames/{temporal} + 1", "H": "height/{scale}", "W": "width/{scale}"}  # of a clip, at most
VIDEO = "video[{temporal}*T - {temporal} + 1, {scale}*H, {scale}*W, 3] @ 16 Hz"

SIGNATURES = (
    ExpertSignature(
        use="wan.tokenizer", role="tokenizer", sizes={"vocabulary": _WORDS}, needs_source=True,
        doc="The unigram tokenizer of UMT5, from `tokenizer/`; text is unescaped and its spaces are evened out first.",
    ),
    ExpertSignature(
        use="wan.umt5", role="text_encoder", needs_source=True, num_parameters=5_680_910_336,
        sizes={"vocabulary": _WORDS, "text": FromConfig(path="d_model", file=_UMT5, default=4096)},
        serves={
            "encode": Ports(
                inputs=(Port(name="tokens", type="tokens[P] < vocabulary"), Port(name="mask", type="i64[P]")),
                outputs=(Port(name="embeds", type="act[P, text]", doc="Rows of padding are zero."),),
            )
        },
        unit_seconds={"encoder_chunk": 0.1}, doc="UMT5's encoder, from `text_encoder/`; padding is not read.",
    ),
    ExpertSignature(
        use="wan.transformer", role="denoiser", needs_source=True,
        num_parameters=FromConfig(path="", file=_DIT, read=dit_parameters, default=14_000_000_000),
        sizes={
            "channels": FromConfig(path="in_channels", file=_DIT, default=16),
            "text": FromConfig(path="text_dim", file=_DIT, default=4096),
            "scale": SCALE, "temporal": TEMPORAL,
        },
        most=LATENT,
        serves={
            "diffusion_denoise": Ports(
                inputs=(
                    Port(name="condition", type="act[P, text]"),
                    Port(name="unconditional", type="act[U, text]", required=False, doc="In its place, for `cfg`."),
                    Port(name="frames", type="scalar", doc="Cut to a multiple of the latent frames', and one more."),
                    Port(name="height", type="scalar", doc="Pixels; cut to a multiple of a patch."),
                    Port(name="width", type="scalar", doc="Pixels."),
                ),
                outputs=(Port(name="latents", type="latent[channels, T, H, W]"),),
            )
        },
        guided={"diffusion_denoise": "unconditional"}, prescribes={"diffusion_denoise": flow_schedule("trained")},
        unit_seconds={"diffusion_step": 2.0}, doc="Wan's transformer over frames and text, from `transformer/`.",
    ),
    ExpertSignature(
        use="wan.vae", role="image_decoder", needs_source=True, num_parameters=73_000_000,
        sizes={
            "channels": FromConfig(path="z_dim", file=_VAE, default=16),
            "scale": SCALE, "temporal": TEMPORAL,
        },
        serves={
            "vae_tile": Ports(
                inputs=(Port(name="latents", type="latent[channels, T, H, W]"),),
                outputs=(Port(name="video", type=VIDEO),),
            )
        },
        unit_seconds={"vae_tile": 2.0}, doc="The decoder of the causal autoencoder, from `vae/`.",
    ),
)  # fmt: skip
