"""Tiny FLUX folders made by diffusers, and what its pipeline does with them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from diffusers import (
    AutoencoderKL,
    FlowMatchEulerDiscreteScheduler,
    FluxPipeline,
    FluxTransformer2DModel,
    UniPCMultistepScheduler,
)
from torch import Tensor
from transformers import CLIPTextConfig, CLIPTextModel, T5Config, T5EncoderModel

from tests.parity.diffusion import Steps, torch_seed, word_tokenizer
from tests.parity.references import SMALLEST, Sizes, stir, watching

WORDS, T5_LENGTH = 64, 16
SCHEDULERS = {
    "dynamic": lambda: FlowMatchEulerDiscreteScheduler(use_dynamic_shifting=True),
    "static": lambda: FlowMatchEulerDiscreteScheduler(shift=3.0),
    "unipc": lambda: UniPCMultistepScheduler(
        prediction_type="flow_prediction", use_flow_sigmas=True, flow_shift=2.0, solver_order=3
    ),
}


def build(
    folder: Path,
    seed: int,
    *,
    scheduler: str = "dynamic",
    guided: bool = True,
    shard: str = "10GB",
    sizes: Sizes = SMALLEST,
) -> Any:
    """Writes the folder and gives diffusers' pipeline over it. sizes: of transformer and vae."""
    torch.manual_seed(seed)
    clip = CLIPTextModel(
        CLIPTextConfig(
            vocab_size=WORDS, hidden_size=32, intermediate_size=64, num_hidden_layers=2, num_attention_heads=4,
            max_position_embeddings=24, bos_token_id=1, eos_token_id=2, pad_token_id=0, projection_dim=32,
        )
    )  # fmt: skip
    t5 = T5EncoderModel(
        T5Config(
            vocab_size=WORDS, d_model=32, d_kv=8, d_ff=64, num_layers=2, num_heads=4, pad_token_id=0, eos_token_id=2
        )
    )
    own = {
        "num_layers": 2, "num_single_layers": 2, "attention_head_dim": 16, "num_attention_heads": 2,
        "axes_dims_rope": (4, 4, 8), **sizes.get("transformer", {}),
    }  # fmt: skip
    transformer = FluxTransformer2DModel(
        patch_size=1, in_channels=16, joint_attention_dim=32, pooled_projection_dim=32, guidance_embeds=guided, **own
    )  # fmt: skip
    vae = AutoencoderKL(
        sample_size=32, layers_per_block=1, latent_channels=4, norm_num_groups=4,
        down_block_types=("DownEncoderBlock2D",) * 2, up_block_types=("UpDecoderBlock2D",) * 2, use_quant_conv=False,
        use_post_quant_conv=False, shift_factor=0.0609, scaling_factor=1.5035,
        **{"block_out_channels": (8, 16), **sizes.get("vae", {})},
    )  # fmt: skip
    for i, module in enumerate((clip, t5, transformer, vae)):
        stir(module.eval(), 10 * seed + i)
    FluxPipeline(
        scheduler=SCHEDULERS[scheduler](),
        vae=vae,
        text_encoder=clip,
        tokenizer=word_tokenizer(begins=True, most=24),
        text_encoder_2=t5,
        tokenizer_2=word_tokenizer(begins=False, most=32),
        transformer=transformer,
    ).save_pretrained(folder, max_shard_size=shard)
    pipeline = FluxPipeline.from_pretrained(folder, dtype=torch.float32)
    pipeline.set_progress_bar_config(disable=True)
    return pipeline


def run(pipeline: Any, prompt: str, *, seed: int, **call: Any) -> tuple[Tensor, Steps]:
    """The picture [H, W, 3] and every step; latents are [C, H, W]."""
    steps = Steps()
    height, width = call.get("height", 32), call.get("width", 32)

    def see(given: Mapping[str, Any], answer: Any) -> None:
        scale = pipeline.vae_scale_factor
        unpack = lambda value: pipeline._unpack_latents(value, height, width, scale)[0]  # noqa: E731
        steps.latents.append(unpack(given["hidden_states"]))
        steps.times.append(float(given["timestep"]))
        steps.velocities.append(unpack(answer[0]))

    def see_text(given: Mapping[str, Any], answer: Any) -> None:
        steps.tokens.append(given["0"][0])
        steps.embeds.append(answer[1][0] if len(answer) > 1 else answer[0][0])

    with (
        watching(pipeline.transformer, "forward", see),
        watching(pipeline.text_encoder, "forward", see_text),
        watching(pipeline.text_encoder_2, "forward", see_text),
    ):
        images = pipeline(
            prompt,
            generator=torch_seed(seed),
            output_type="pt",
            max_sequence_length=T5_LENGTH,
            **{"height": 32, "width": 32, **call},
        ).images
    return images[0].permute(1, 2, 0), steps
