"""The experts of `specs/null`: tiny random stand-ins for those of `smol`, with the same ports."""

from __future__ import annotations

from dataclasses import replace

from omniflow_compiler.library.experts import smol
from omniflow_compiler.library.signature import ExpertSignature, Port, Ports

VOCAB = 317  # bytes and marks
_SIZES = {
    "smol.tokenizer": {"vocabulary": VOCAB},
    "smol.thinker": {"vocabulary": VOCAB, "hidden": 16},
    "smol.lexicon": {"characters": 30, "vocabulary": 47, "phonemes": 46},
    "smol.talker": {"vocabulary": 44, "spelled": 47},
    "smol.acoustic": {"phonemes": 46},
}


def _null(signature: ExpertSignature) -> ExpertSignature:
    return replace(
        signature,
        use=signature.use.replace("smol.", "null."),
        sizes={**signature.sizes, **_SIZES.get(signature.use, {})},
        num_parameters=10_000 if signature.num_parameters else 0,
        leases=True,
        kv_bytes_per_token=64 if signature.kv_bytes_per_token else 0,
        unit_seconds=dict.fromkeys(signature.unit_seconds, 0.0001),
        doc=f"Tiny random stand-in for `{signature.use}`.",
    )


def _tiny(signature: ExpertSignature) -> ExpertSignature:
    """Its weights are made, not read; they are whole numbers in float32, which no batch rounds."""
    if not signature.num_parameters:
        return replace(signature, takes_source=False)
    return replace(signature, takes_source=False, dtypes=("float32",), devices=("cpu",))


_IMAGE = (
    ExpertSignature(
        use="null.text_encoder", role="text_encoder", sizes={"vocabulary": VOCAB, "width": 16}, num_parameters=10_000,
        serves={
            "encode": Ports(
                inputs=(Port(name="tokens", type="tokens[P] < vocabulary"),),
                outputs=(Port(name="embeds", type="f32[P, width]"),),
            )
        },
        unit_seconds={"encoder_chunk": 100e-6}, doc="Tiny random text encoder.",
    ),
    ExpertSignature(
        use="null.denoiser", role="denoiser", sizes={"width": 16}, num_parameters=10_000,
        serves={
            "diffusion_denoise": Ports(
                inputs=(
                    Port(name="condition", type="f32[P, width]"),
                    Port(name="unconditional", type="f32[U, width]", required=False, doc="Needed when guidance is on."),
                ),
                outputs=(Port(name="latents", type="latent[4, 8, 8]"),),
            )
        },
        guided={"diffusion_denoise": "unconditional"},
        unit_seconds={"diffusion_step": 200e-6}, doc="Tiny random flow over 4 x 8 x 8 latents.",
    ),
    ExpertSignature(
        use="null.image_decoder", role="image_decoder", num_parameters=10_000,
        serves={
            "vae_tile": Ports(
                inputs=(Port(name="latents", type="latent[4, H, W]"),),
                outputs=(Port(name="image", type="image[8*H, 8*W, 3]"),),
            )
        },
        unit_seconds={"vae_tile": 200e-6}, doc="Tiny random decoder of latents to pixels, eight times as large.",
    ),
)  # fmt: skip

_WORLD = (
    ExpertSignature(
        use="null.world", role="world_model", sizes={"width": 16}, num_parameters=10_000,
        serves={
            "chunk_rollout": Ports(
                inputs=(
                    Port(name="condition", type="f32[P, width]"),
                    Port(name="actions", type="f32[A, 3]", required=False, streams=True, doc="A row for each chunk."),
                ),
                outputs=(Port(name="latents", type="latent[T*, 4, 2, 8, 8]", streams=True),),
            )
        },
        kv_bytes_per_token=4 * 4 * 2 * 8 * 8,
        unit_seconds={"chunk_step": 200e-6}, doc="Tiny random world of chunks of two frames.",
    ),
    ExpertSignature(
        use="null.screen", role="image_decoder",
        serves={
            "vae_tile": Ports(
                inputs=(Port(name="latents", type="latent[4, F, H, W]"),),
                outputs=(Port(name="video", type="video[F, 8*H, 8*W, 3]"),),
            )
        },
        unit_seconds={"vae_tile": 200e-6}, doc="Tiny random decoder of frames, each by itself.",
    ),
)  # fmt: skip

_FRAMES = (
    ExpertSignature(
        use="null.framer", role="talker", sizes={"vocabulary": VOCAB, "codes": 32, "width": 16}, num_parameters=10_000,
        serves={
            "ar_decode": Ports(
                inputs=(Port(name="prompt", type="tokens[P] < vocabulary"),),
                outputs=(
                    Port(name="tokens", type="tokens[T] < codes", streams=True),
                    Port(name="hidden", type="act[T, width]", streams=True),
                ),
            )
        },
        kv_bytes_per_token=64, unit_seconds={"ar_prefill": 100e-6, "ar_token": 100e-6},
        doc="Tiny random model of text that answers in frames of four codes.",
    ),
    ExpertSignature(
        use="null.composer", role="code_writer", sizes={"vocabulary": VOCAB, "codes": 32, "codebooks": 4},
        codebooks="codebooks", num_parameters=10_000,
        serves={
            "ar_decode": Ports(
                inputs=(Port(name="source", type="tokens[P] < vocabulary"),),
                outputs=(Port(name="codes", type="codes[T, codebooks]", streams=True),),
            )
        },
        kv_bytes_per_token=64, unit_seconds={"ar_prefill": 100e-6, "ar_token": 100e-6}, guided={"ar_decode": ""},
        doc="Tiny random model that chooses a code of four codebooks a step.",
    ),
    ExpertSignature(
        use="null.depth", role="code_predictor", sizes={"codes": 32, "width": 16}, num_parameters=10_000,
        serves={
            "ar_decode": Ports(
                inputs=(Port(name="hidden", type="act[1, width]"), Port(name="first", type="tokens[1] < codes")),
                outputs=(Port(name="tokens", type="tokens[G] < codes", streams=True),),
            )
        },
        kv_bytes_per_token=64, unit_seconds={"ar_prefill": 100e-6, "ar_token": 100e-6},
        doc="Tiny random model of the further codes of a frame.",
    ),
    ExpertSignature(
        use="null.codec", role="vocoder", sizes={"codes": 32}, num_parameters=10_000, hop=8,
        serves={
            "audio_decode": Ports(
                inputs=(Port(name="codes", type="codes[F, 4]", streams=True, left=2),),
                outputs=(Port(name="audio", type="audio[8*F]", streams=True),),
            )
        },
        unit_seconds={"audio_chunk": 100e-6}, doc="Tiny causal decoder of frames, eight samples each.",
    ),
)  # fmt: skip

SIGNATURES = tuple(_tiny(signature) for signature in (*map(_null, smol.SIGNATURES), *_IMAGE, *_WORLD, *_FRAMES))
