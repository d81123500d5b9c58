"""Tiny Cosmos 3 folders made by diffusers and transformers, and what their models do with them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from diffusers import (
    AutoencoderKLWan,
    Cosmos3AVAEAudioTokenizer,
    Cosmos3OmniPipeline,
    Cosmos3OmniTransformer,
    UniPCMultistepScheduler,
)
from tokenizers import Tokenizer, models, pre_tokenizers
from torch import Tensor
from transformers import PreTrainedTokenizerFast
from transformers.models.cosmos3_omni import Cosmos3OmniConfig, Cosmos3OmniForConditionalGeneration

from tests.parity.diffusion import torch_seed
from tests.parity.references import SMALLEST, Sizes, stir, watching

SPECIAL = "<pad> <unk> <|im_start|> <|im_end|> <|vision_start|> <|vision_end|> <|image_pad|> <|video_pad|>".split()
WORDS = (
    "system user assistant a the cat dog robot red blue green runs sits jumps on under over mat moon river with and "
    "hat photo of camera slow fast light dark wide shot zoom rain snow field city night morning tree bird sings loud "
    "quiet"
).split()
VOCABULARY = [*SPECIAL, *WORDS]
SUPPRESSED = [i for i, word in enumerate(SPECIAL) if word != "<|im_end|>"]
TEMPLATE = (
    "{% for m in messages %}<|im_start|> {{ m['role'] }} {{ m['content'] }} <|im_end|> {% endfor %}"
    "{% if add_generation_prompt %}<|im_start|> assistant {% endif %}"
)
HIDDEN, LAYERS, HEADS, KV_HEADS, HEAD, INNER = 48, 3, 3, 1, 16, 96
ROPE = (4, 2, 2)
TEXT_NAMES = {
    "self_attn.to_q": "self_attn.q_proj", "self_attn.to_k": "self_attn.k_proj", "self_attn.to_v": "self_attn.v_proj",
    "self_attn.to_out": "self_attn.o_proj", "self_attn.norm_q": "self_attn.q_norm",
    "self_attn.norm_k": "self_attn.k_norm",
}  # fmt: skip


@dataclass(kw_only=True)
class Film:
    """What diffusers' pipeline made, and what its transformer was asked and answered, conditional call by call."""

    video: Tensor  # [F, H, W, 3]
    sound: Tensor | None  # [S, channels]
    tokens: list[Tensor] = field(default_factory=list)
    latents: list[Tensor] = field(default_factory=list)
    sounds: list[Tensor] = field(default_factory=list)
    velocities: list[Tensor] = field(default_factory=list)
    times: list[int] = field(default_factory=list)
    num_text_passes: int = 0  # of the understanding experts


def _tokenizer() -> PreTrainedTokenizerFast:
    tokenizer = Tokenizer(models.WordLevel({word: i for i, word in enumerate(VOCABULARY)}, unk_token="<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        pad_token="<pad>",
        unk_token="<unk>",
        eos_token="<|im_end|>",
        additional_special_tokens=SPECIAL[2:],
        chat_template=TEMPLATE,
        model_max_length=512,
    )


def build(folder: Path, seed: int) -> tuple[Any, Any]:
    """Writes the folder; gives diffusers' pipeline and transformers' model of the same understanding experts."""
    pipeline = build_pipeline(folder, seed)
    return pipeline, _writer(pipeline.transformer)


def build_pipeline(folder: Path, seed: int, *, sizes: Sizes = SMALLEST) -> Any:
    """Writes the folder; gives diffusers' pipeline. sizes: of mixture and vae."""
    torch.manual_seed(seed)
    own = {
        "head_dim": HEAD, "hidden_size": HIDDEN, "intermediate_size": INNER, "num_attention_heads": HEADS,
        "num_hidden_layers": LAYERS, "num_key_value_heads": KV_HEADS, "rope_axes_dim": list(ROPE),
    }  # fmt: skip
    mixture = Cosmos3OmniTransformer(
        latent_channel=16, latent_patch_size=2, patch_latent_dim=64, rope_theta=10000.0, sound_dim=8, sound_gen=True,
        sound_latent_fps=24.0, vocab_size=len(VOCABULARY), **{**own, **sizes.get("mixture", {})},
    )  # fmt: skip
    vae = AutoencoderKLWan(
        z_dim=16, dim_mult=[1, 1, 1, 1], num_res_blocks=1, temperal_downsample=[False, True, True],
        **{"base_dim": 3, **sizes.get("vae", {})},
    )  # fmt: skip
    sound = Cosmos3AVAEAudioTokenizer(
        sampling_rate=480, vocoder_input_dim=8, dec_dim=8, dec_c_mults=(1, 2), dec_strides=(4, 5), dec_out_channels=1,
        stereo=False, encoder_enabled=False,
    )  # fmt: skip
    for i, module in enumerate((mixture, vae, sound)):
        stir(module.eval(), 10 * seed + i)
    mixture.embed_tokens.weight.data.normal_(0, 1, generator=torch_seed(seed))
    mixture.lm_head.weight.data.mul_(2)
    Cosmos3OmniPipeline(
        transformer=mixture,
        text_tokenizer=_tokenizer(),
        vae=vae,
        scheduler=UniPCMultistepScheduler(prediction_type="flow_prediction", use_flow_sigmas=True, flow_shift=3.0),
        sound_tokenizer=sound,
        enable_safety_checker=False,
    ).save_pretrained(folder)
    pipeline = Cosmos3OmniPipeline.from_pretrained(folder, dtype=torch.float32, enable_safety_checker=False)
    pipeline.set_progress_bar_config(disable=True)
    return pipeline


def _writer(mixture: Any) -> Any:
    """transformers' model with the understanding experts' weights."""
    words = VOCABULARY.index
    config = Cosmos3OmniConfig(
        text_config={
            "model_type": "qwen3_vl_text", "vocab_size": len(VOCABULARY), "hidden_size": HIDDEN,
            "intermediate_size": INNER, "num_hidden_layers": LAYERS, "num_attention_heads": HEADS,
            "num_key_value_heads": KV_HEADS, "head_dim": HEAD, "max_position_embeddings": 512,
            "rope_parameters": {
                "rope_type": "default", "rope_theta": 10000.0, "mrope_section": list(ROPE), "mrope_interleaved": True,
            },
        },
        vision_config={
            "model_type": "qwen3_vl_vision", "depth": 1, "hidden_size": 16, "intermediate_size": 16, "num_heads": 2,
            "patch_size": 4, "out_hidden_size": HIDDEN, "num_position_embeddings": 16, "deepstack_visual_indexes": [0],
        },
        image_token_id=words("<|image_pad|>"), video_token_id=words("<|video_pad|>"),
        vision_start_token_id=words("<|vision_start|>"), vision_end_token_id=words("<|vision_end|>"),
    )  # fmt: skip
    writer = Cosmos3OmniForConditionalGeneration(config).eval()
    own = writer.state_dict()
    for name, tensor in mixture.state_dict().items():
        renamed = name
        for theirs, mine in TEXT_NAMES.items():
            renamed = renamed.replace(theirs, mine)
        renamed = renamed if renamed == "lm_head.weight" else f"model.language_model.{renamed}"
        if renamed in own:
            own[renamed].copy_(tensor)
    return writer


def write(pipeline: Any, writer: Any, prompt: str, *, most: int) -> tuple[list[int], list[int], str]:
    """The ids of a prompt, those that the model writes behind it, and their text."""
    tokenizer = pipeline.text_tokenizer
    ids = tokenizer.apply_chat_template(
        [{"role": "user", "content": prompt}], add_generation_prompt=True, return_dict=True, return_tensors="pt"
    )
    written = writer.generate(
        input_ids=ids["input_ids"], attention_mask=ids["attention_mask"], max_new_tokens=most, do_sample=False,
        eos_token_id=tokenizer.eos_token_id, pad_token_id=0, suppress_tokens=SUPPRESSED, repetition_penalty=1.3,
    )  # fmt: skip
    new = [i for i in written[0, ids["input_ids"].shape[1] :].tolist() if i != tokenizer.eos_token_id]
    return ids["input_ids"][0].tolist(), new, tokenizer.decode(new)


def film(pipeline: Any, text: str, *, seed: int, sound: bool = True, plain: bool = True, **call: Any) -> Film:
    """What the pipeline makes of a text; `plain` leaves captions and the system message out."""
    calls: list[tuple[Mapping[str, Any], Any]] = []
    passes: list[int] = []
    attention = pipeline.transformer.layers[0].self_attn
    with (
        watching(pipeline.transformer, "forward", lambda given, answer: calls.append((given, answer))),
        watching(attention.to_k, "forward", lambda given, answer: passes.append(1)),
    ):
        options = dict.fromkeys(("use_system_prompt", "add_resolution_template", "add_duration_template"), not plain)
        made = pipeline(
            text, generator=torch_seed(seed), output_type="pt", enable_sound=sound,
            **{"height": 32, "width": 32, "num_frames": 5, "fps": 24.0, **options, **call},
        )  # fmt: skip
    guided = call.get("guidance_scale", 6.0) != 1.0
    result = Film(video=made.video.permute(0, 2, 3, 1), sound=None if made.sound is None else made.sound.T)
    for given, answer in calls[:: 2 if guided else 1]:
        result.latents.append(given["vision_tokens"][0][0])
        result.velocities.append(answer[0][0][0])
        result.times.append(int(given["vision_timesteps"][0]))
        if sound:
            result.sounds.append(given["sound_tokens"][0].T)
    result.tokens = [given["input_ids"] for given, _ in calls[: 2 if guided else 1]]
    result.num_text_passes = len(passes)
    return result
