"""Tiny random Qwen2.5-Omni checkpoints, and what transformers makes of them.

transformers 5.24 drops an attention mask of ones inside `generate`; the talker then leaves out the embeddings of codec
pad and codec bos and its three-axis positions. One masked token in front of the prompt (`pad_one`) brings them back.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from tests.parity.references import SMALLEST, Recording, Sizes, stir, watching

VOCABULARY, CODES = 200, 80
AUDIO, IMAGE, VIDEO, AUDIO_START, AUDIO_END, VISION_START, VISION_END = range(180, 187)
TEXT_END, TEXT_PAD, SPEAKER, EOS, PAD = range(188, 193)
CODEC_BOS, CODEC_END, CODEC_PAD, CODEC_MASK = range(74, 78)
MELS, WINDOW = 12, 6
HIDDEN, CODE_MELS, VECTOR = 64, 8, 9
VOICES = ("Chelsie", "Ethan")
WORDS = ("<system>", "<user>", "<assistant>", *(f"w{i}" for i in range(3, VOCABULARY)))
TEMPLATE = (
    "{% for message in messages %}<{{ message['role'] }}> {% if message['content'] is string %}{{ message['content'] }}"
    "{% else %}{% for part in message['content'] %}"
    "{% if part['type'] == 'image' %}w185 w181 w186 {% elif part['type'] == 'audio' %}w183 w180 w184 "
    "{% else %}{{ part['text'] }}{% endif %}{% endfor %}{% endif %} {% endfor %}"
    "{% if add_generation_prompt %}<assistant>{% endif %}{% if tools %} tools{% endif %}"
)
_ROPE = {"rope_type": "default", "rope_theta": 10000.0, "mrope_section": [2, 3, 3]}
_IDS = {
    "audio_token_index": AUDIO, "image_token_index": IMAGE, "video_token_index": VIDEO,
    "audio_start_token_id": AUDIO_START, "audio_end_token_id": AUDIO_END,
    "vision_start_token_id": VISION_START, "vision_end_token_id": VISION_END,
}  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One call of the reference. prompts: ids of each row; features: [mels, F] of one sound; grid: of one picture."""

    prompts: tuple[tuple[int, ...], ...]
    features: Tensor | None = None
    pixels: Tensor | None = None
    grid: tuple[int, int, int] | None = None
    sample_text: bool = False
    sample_codes: bool = False
    eos: int = EOS
    codec_end: int = CODEC_END
    codec_pad: int = CODEC_PAD
    max_text: int = 12
    max_codes: int = 30


def config(*, block: int = 6, sizes: Sizes = SMALLEST) -> Any:
    """The smallest configuration in which every part does something: two layers, two kinds of blocks, two kernels.

    block: frames that the flow always sees together, 24 in the published checkpoints. sizes: of text, audio, vision,
    talker, dit and bigvgan.
    """
    from transformers.models.qwen2_5_omni.configuration_qwen2_5_omni import Qwen2_5OmniConfig

    text = {
        "vocab_size": VOCABULARY, "hidden_size": HIDDEN, "intermediate_size": 96, "num_hidden_layers": 2,
        "num_attention_heads": 4, "num_key_value_heads": 2, "max_position_embeddings": 512,
        "rope_parameters": dict(_ROPE), "tie_word_embeddings": False, "pad_token_id": PAD, "eos_token_id": EOS,
        "bos_token_id": None,
    }  # fmt: skip
    audio = {
        "num_mel_bins": MELS, "encoder_layers": 2, "encoder_attention_heads": 2, "encoder_ffn_dim": 40, "d_model": 24,
        "max_source_positions": 64, "n_window": WINDOW, "output_dim": HIDDEN,
    }  # fmt: skip
    vision = {
        "depth": 2, "hidden_size": 32, "intermediate_size": 48, "num_heads": 2, "patch_size": 2,
        "spatial_merge_size": 2, "temporal_patch_size": 2, "window_size": 8, "out_hidden_size": HIDDEN,
        "fullatt_block_indexes": [1],
    }  # fmt: skip
    talker = {
        "vocab_size": CODES, "embedding_size": HIDDEN, "hidden_size": 32, "intermediate_size": 64,
        "num_hidden_layers": 2, "num_attention_heads": 2, "num_key_value_heads": 1, "head_dim": 16,
        "max_position_embeddings": 512, "rope_parameters": dict(_ROPE), "tts_text_start_token_id": 187,
        "tts_text_end_token_id": TEXT_END, "tts_text_pad_token_id": TEXT_PAD, "tts_codec_start_token_id": CODEC_BOS,
        "tts_codec_end_token_id": CODEC_END, "tts_codec_pad_token_id": CODEC_PAD,
        "tts_codec_mask_token_id": CODEC_MASK, **_IDS,
    }  # fmt: skip
    dit = {
        "hidden_size": 24, "num_hidden_layers": 4, "num_attention_heads": 3, "head_dim": 8, "ff_mult": 2,
        "emb_dim": 12, "block_size": block, "look_ahead_layers": [1], "look_backward_layers": [0, 3], "repeats": 2,
        "num_embeds": CODES, "mel_dim": CODE_MELS, "dropout": 0.0, "enc_emb_dim": VECTOR, "enc_dim": 7,
        "enc_channels": [8, 8, 8, 16], "enc_kernel_sizes": [5, 3, 3, 1], "enc_dilations": [1, 2, 3, 1],
        "enc_attention_channels": 6, "enc_res2net_scale": 2, "enc_se_channels": 4, "max_position_embeddings": 1024,
        "rope_parameters": {"rope_type": "default", "rope_theta": 10000.0},
    }  # fmt: skip
    bigvgan = {
        "mel_dim": CODE_MELS, "upsample_initial_channel": 16, "resblock_kernel_sizes": [3, 5],
        "resblock_dilation_sizes": [[1, 3, 5], [1, 2, 4]], "upsample_rates": [4, 3], "upsample_kernel_sizes": [8, 7],
    }  # fmt: skip
    named = {"text": text, "audio": audio, "vision": vision, "talker": talker, "dit": dit, "bigvgan": bigvgan}
    parts = {name: {**part, **sizes.get(name, {})} for name, part in named.items()}
    thinker = {f"{name}_config": parts[name] for name in ("text", "audio", "vision")}
    return Qwen2_5OmniConfig(
        thinker_config={**thinker, "user_token_id": 187, **_IDS},
        talker_config=parts["talker"],
        token2wav_config={"dit_config": parts["dit"], "bigvgan_config": parts["bigvgan"]},
    )


def build(folder: Path, seed: int, *, block: int = 6, sizes: Sizes = SMALLEST) -> Any:
    """A random model, saved to `folder` with two voices, as transformers loads it from there."""
    from transformers.models.qwen2_5_omni.modeling_qwen2_5_omni import Qwen2_5OmniForConditionalGeneration

    model = Qwen2_5OmniForConditionalGeneration(config(block=block, sizes=sizes)).eval()
    stir(model, seed, gain=1.5)
    generator = torch.Generator().manual_seed(seed + 1)
    with torch.no_grad():
        model.token2wav.code2wav_dit_model.proj_out.weight.mul_(0.3)
        mel = torch.randn(1, CODE_MELS, 24, generator=generator)
        wave = _unclamped(model.token2wav.code2wav_bigvgan_model, mel)
        model.token2wav.code2wav_bigvgan_model.conv_post.weight.mul_(0.2 / wave.std())
    model.save_pretrained(folder)
    voices = {
        name: {
            "bos_token": SPEAKER + 8 + i,
            "cond": torch.randn(1, VECTOR, generator=generator),
            "ref_mel": torch.randn(1, 18 + i, CODE_MELS, generator=generator),
        }
        for i, name in enumerate(VOICES)
    }
    torch.save(voices, folder / "spk_dict.pt")
    return Qwen2_5OmniForConditionalGeneration.from_pretrained(folder, dtype=torch.float32).eval()


PREPROCESSING = {
    "feature_extractor_type": "WhisperFeatureExtractor", "feature_size": MELS, "sampling_rate": 16000,
    "hop_length": 160, "n_fft": 400, "chunk_length": 2, "padding_side": "right", "return_attention_mask": True,
    "image_processor_type": "Qwen2VLImageProcessor", "patch_size": 2, "merge_size": 2, "temporal_patch_size": 2,
    "min_pixels": 16, "max_pixels": 400, "image_mean": [0.48145466, 0.4578275, 0.40821073],
    "image_std": [0.26862954, 0.26130258, 0.27577711],
}  # fmt: skip


def add_tokenizer(folder: Path) -> None:
    """One id per word, `w3` for words it does not know, a chat template, and how sounds and pictures are prepared."""
    from tokenizers import Tokenizer, models, pre_tokenizers

    tokenizer = Tokenizer(models.WordLevel({word: i for i, word in enumerate(WORDS)}, unk_token="w3"))
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    tokenizer.save(str(folder / "tokenizer.json"))
    (folder / "chat_template.jinja").write_text(TEMPLATE, encoding="utf-8")
    (folder / "preprocessor_config.json").write_text(json.dumps(PREPROCESSING), encoding="utf-8")


def _unclamped(vocoder: Any, mel: Tensor) -> Tensor:
    kept: list[Tensor] = []
    handle = vocoder.conv_post.register_forward_hook(lambda _module, _given, result: kept.append(result))
    vocoder(mel)
    handle.remove()
    return kept[0]


def cases() -> dict[str, Case]:
    """Text, sound and picture in; greedy and sampled; one row and a padded batch."""
    generator = torch.Generator().manual_seed(7)

    def ids(count: int) -> tuple[int, ...]:
        return tuple(torch.randint(0, 180, (count,), generator=generator).tolist())

    features = torch.randn(MELS, 27, generator=generator)
    sound = (*ids(3), AUDIO_START, *[AUDIO] * (14 // 2), AUDIO_END, *ids(4))
    grid = (1, 4, 6)
    pixels = torch.randn(24, 3 * 2 * 2 * 2, generator=generator)
    picture = (*ids(3), VISION_START, *[IMAGE] * 6, VISION_END, *ids(4))
    text = (ids(11),)
    return {
        "text": Case(prompts=text),
        "codes_sampled": Case(prompts=text, sample_codes=True),
        "all_sampled": Case(prompts=text, sample_text=True, sample_codes=True),
        "padded_batch": Case(prompts=(ids(9), ids(5))),
        "sound": Case(prompts=(sound,), features=features),
        "picture": Case(prompts=(picture,), pixels=pixels, grid=grid),
    }


def record(model: Any, case: Case, *, seed: int, voice: str = VOICES[0], pad_one: bool = True) -> Recording:
    """Runs transformers' own `generate` and keeps what crossed from stage to stage."""
    inputs = _inputs(case, pad_one=pad_one)
    seen: dict[str, Tensor] = {}
    codes: list[Tensor] = []

    def see_thinker(_given: Mapping[str, Any], result: Any) -> None:
        steps = result.hidden_states
        seen["prompt_embeds"], seen["prompt_hidden"] = steps[0][0], steps[0][-1]
        seen["embeds"], seen["hidden"] = (torch.cat([step[i] for step in steps[1:]], 1) for i in (0, -1))

    def see_talker(given: Mapping[str, Any], result: Tensor) -> None:
        for name in ("input_ids", "inputs_embeds", "thinker_reply_part"):
            seen[f"talker.{name}"] = given[name]
        codes.append(result[:, given["input_ids"].shape[1] :])

    def see_mel(given: Mapping[str, Any], result: Tensor) -> None:
        row = sum(name.startswith("mel.") for name in seen)
        seen[f"codes.{row}"], seen[f"mel.{row}"] = given["2"], result

    with torch.no_grad(), ExitStack() as stack:
        stack.enter_context(watching(model.thinker, "generate", see_thinker))
        stack.enter_context(watching(model.talker, "generate", see_talker))
        stack.enter_context(watching(model.token2wav.code2wav_dit_model, "sample", see_mel))
        torch.manual_seed(seed)
        sequences, waves = model.generate(**inputs, speaker=voice, **_options(case))
    return Recording(
        inputs=inputs,
        seed=seed,
        crossed=seen,
        text=[_until(row, {case.eos}) for row in sequences[:, inputs["input_ids"].shape[1] :].tolist()],
        codes=[_until(row, {case.codec_pad, case.codec_end}) for row in codes[0].tolist()],
        waves=[wave.reshape(-1) for wave in (waves if isinstance(waves, list) else [waves])],
    )


def _inputs(case: Case, *, pad_one: bool) -> dict[str, Tensor]:
    longest = max(len(row) for row in case.prompts) + (1 if pad_one and len(case.prompts) == 1 else 0)
    rows = [(longest - len(row), row) for row in case.prompts]
    inputs = {
        "input_ids": torch.tensor([[PAD] * missing + list(row) for missing, row in rows]),
        "attention_mask": torch.tensor([[0] * missing + [1] * len(row) for missing, row in rows]),
    }
    if case.features is not None:
        inputs["input_features"] = case.features[None]
        inputs["feature_attention_mask"] = torch.ones(1, case.features.shape[1], dtype=torch.int64)
    if case.pixels is not None:
        inputs["thinker_pixel_values"] = case.pixels  # unprefixed it reaches the talker, which refuses it
        inputs["image_grid_thw"] = torch.tensor([case.grid])
    return inputs


def _options(case: Case) -> dict[str, Any]:
    sampled = {"thinker_do_sample": True, "thinker_temperature": 0.8, "thinker_top_p": 0.9}
    return {
        "thinker_max_new_tokens": case.max_text,
        "thinker_eos_token_id": case.eos,
        "talker_max_new_tokens": case.max_codes,
        "talker_do_sample": case.sample_codes,
        "talker_eos_token_id": [case.codec_pad, case.codec_end],
        **(sampled if case.sample_text else {}),
    }


def _until(ids: list[int], stops: set[int]) -> list[int]:
    return next((ids[:i] for i, value in enumerate(ids) if value in stops), ids)
