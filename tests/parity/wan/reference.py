"""Tiny Wan folders made by diffusers, and what its pipeline does with them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from diffusers import (
    AutoencoderKLWan,
    FlowMatchEulerDiscreteScheduler,
    UniPCMultistepScheduler,
    WanPipeline,
    WanTransformer3DModel,
)
from torch import Tensor
from transformers import UMT5Config, UMT5EncoderModel

from tests.parity.diffusion import Steps, torch_seed, word_tokenizer
from tests.parity.references import SMALLEST, Sizes, stir, watching

TEXT_LENGTH = 16
SCHEDULERS = {
    "euler": lambda: FlowMatchEulerDiscreteScheduler(shift=3.0),
    "unipc": lambda: UniPCMultistepScheduler(
        prediction_type="flow_prediction", use_flow_sigmas=True, flow_shift=3.0
    ),
}  # fmt: skip


def build(folder: Path, seed: int, *, scheduler: str = "euler", sizes: Sizes = SMALLEST) -> Any:
    """Writes the folder and gives diffusers' pipeline over it. sizes: of transformer and vae."""
    torch.manual_seed(seed)
    umt5 = UMT5EncoderModel(
        UMT5Config(
            vocab_size=64, d_model=32, d_kv=8, d_ff=64, num_layers=2, num_heads=4, pad_token_id=0, eos_token_id=2
        )
    )
    own = {"num_attention_heads": 2, "attention_head_dim": 12, "ffn_dim": 48, "num_layers": 2, "freq_dim": 64}
    transformer = WanTransformer3DModel(
        patch_size=(1, 2, 2), in_channels=16, out_channels=16, text_dim=32, cross_attn_norm=True,
        qk_norm="rms_norm_across_heads", rope_max_seq_len=32, **{**own, **sizes.get("transformer", {})},
    )  # fmt: skip
    vae = AutoencoderKLWan(
        z_dim=16, dim_mult=[1, 1, 1, 1], num_res_blocks=1, temperal_downsample=[False, True, True],
        **{"base_dim": 3, **sizes.get("vae", {})},
    )  # fmt: skip
    for i, module in enumerate((umt5, transformer, vae)):
        stir(module.eval(), 10 * seed + i)
    WanPipeline(
        tokenizer=word_tokenizer(begins=False, most=16),
        text_encoder=umt5,
        vae=vae,
        scheduler=SCHEDULERS[scheduler](),
        transformer=transformer,
    ).save_pretrained(folder)
    pipeline = WanPipeline.from_pretrained(folder, dtype=torch.float32)
    pipeline.set_progress_bar_config(disable=True)
    return pipeline


def run(pipeline: Any, prompt: str, *, seed: int, **call: Any) -> tuple[Tensor, Steps]:
    """The clip [F, H, W, 3] and every step; with guidance every other call is the unconditional one."""
    steps = Steps()

    def see(given: Mapping[str, Any], answer: Any) -> None:
        steps.latents.append(given["hidden_states"][0])
        steps.times.append(float(given["timestep"]) / 1000)
        steps.velocities.append(answer[0][0])

    def see_text(given: Mapping[str, Any], answer: Any) -> None:
        steps.tokens.append(given["0"][0])
        steps.embeds.append(answer.last_hidden_state[0] * given["1"][0][:, None])

    with (
        watching(pipeline.transformer, "forward", see),
        watching(pipeline.text_encoder, "forward", see_text),
    ):
        frames = pipeline(
            prompt,
            generator=torch_seed(seed),
            output_type="pt",
            max_sequence_length=TEXT_LENGTH,
            **{"height": 32, "width": 32, "num_frames": 5, **call},
        ).frames
    return frames[0].permute(0, 2, 3, 1), steps
