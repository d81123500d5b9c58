"""Tiny random Qwen3-Omni checkpoints, and what transformers makes of them.

transformers 5.24 skips the repetition penalty for as many generated codes as a padded row has pads. Cases with several
rows therefore go without a penalty, but for the one that shows what that costs.
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

VOCABULARY, CODES, GROUPS = 220, 48, 5
AUDIO, IMAGE, VIDEO, AUDIO_START, AUDIO_END, VISION_START, VISION_END = range(200, 207)
TURN, TURN_END, USER, ASSISTANT, SYSTEM, SPEECH_PAD, SPEECH_BOS, SPEECH_END, LINE = range(207, 216)
TALKER_VOCABULARY = CODES + 1024  # transformers takes the last 1024 ids for specials
CODEC_END, CODEC_PAD, CODEC_BOS, NO_THINK, THINK_BOS, THINK_END, ETHAN, CHELSIE = range(CODES, CODES + 8)
VOICES = ("Ethan", "Chelsie")
MELS, HIDDEN = 12, 40
HOP, LOST = 3 * 2 * 2 * 2, 3 * 2 + 2  # samples per frame; samples that the strides 3, 2 hold back
_ROPE = {"rope_type": "default", "rope_theta": 10000.0, "mrope_section": [4, 2, 2], "interleaved": True}
_PLAIN_ROPE = {"rope_type": "default", "rope_theta": 10000.0}
_IDS = {
    "audio_token_id": AUDIO, "image_token_id": IMAGE, "video_token_id": VIDEO, "audio_start_token_id": AUDIO_START,
    "audio_end_token_id": AUDIO_END, "vision_start_token_id": VISION_START, "vision_end_token_id": VISION_END,
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
    penalty: float = 1.05
    eos: int = TURN_END
    max_text: int = 12
    max_frames: int = 20


def config(sizes: Sizes = SMALLEST) -> Any:
    """The smallest configuration in which every part does something: two layers, a short window, several strides.

    sizes: of text, audio, vision, talker_text, predictor, talker and code2wav.
    """
    from transformers.models.qwen3_omni_moe.configuration_qwen3_omni_moe import Qwen3OmniMoeConfig

    attention = {"head_dim": 16, "max_position_embeddings": 512}
    experts = {"moe_intermediate_size": 24, "num_experts": 5, "num_experts_per_tok": 2}
    text = {
        "vocab_size": VOCABULARY, "hidden_size": HIDDEN, "intermediate_size": 64, "num_hidden_layers": 3,
        "num_attention_heads": 4, "num_key_value_heads": 2, "rope_parameters": dict(_ROPE),
        "pad_token_id": SPEECH_PAD, "eos_token_id": TURN_END, **attention, **experts,
    }  # fmt: skip
    audio = {
        "num_mel_bins": MELS, "encoder_layers": 2, "encoder_attention_heads": 2, "encoder_ffn_dim": 40, "d_model": 24,
        "max_source_positions": 64, "n_window": 50, "n_window_infer": 200, "output_dim": HIDDEN,
        "downsample_hidden_size": 6,
    }  # fmt: skip
    vision = {
        "depth": 3, "hidden_size": 32, "intermediate_size": 48, "num_heads": 2, "patch_size": 2,
        "spatial_merge_size": 2, "temporal_patch_size": 2, "out_hidden_size": HIDDEN, "num_position_embeddings": 25,
        "deepstack_visual_indexes": [0, 2],
    }  # fmt: skip
    talker_text = {
        "vocab_size": TALKER_VOCABULARY, "hidden_size": 32, "intermediate_size": 56, "num_hidden_layers": 2,
        "num_attention_heads": 2, "num_key_value_heads": 1, "rope_parameters": dict(_ROPE),
        "shared_expert_intermediate_size": 20, **attention, **experts,
    }  # fmt: skip
    predictor = {
        "vocab_size": CODES, "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2,
        "num_attention_heads": 2, "num_key_value_heads": 1, "rope_parameters": dict(_PLAIN_ROPE),
        "num_code_groups": GROUPS, **attention,
    }  # fmt: skip
    talker = {
        "text_config": {**talker_text, **sizes.get("talker_text", {})}, "num_code_groups": GROUPS,
        "code_predictor_config": {**predictor, **sizes.get("predictor", {})},
        "thinker_hidden_size": HIDDEN, "accept_hidden_layer": 1, "codec_eos_token_id": CODEC_END,
        "codec_nothink_id": NO_THINK, "codec_think_bos_id": THINK_BOS, "codec_think_eos_id": THINK_END,
        "codec_pad_id": CODEC_PAD, "codec_bos_id": CODEC_BOS, "speaker_id": {"ethan": ETHAN, "chelsie": CHELSIE},
        "spatial_merge_size": 2, **_IDS, **sizes.get("talker", {}),
    }  # fmt: skip
    code2wav = {
        "codebook_size": CODES, "hidden_size": 24, "num_attention_heads": 2, "num_key_value_heads": 1, "head_dim": 12,
        "sliding_window": 5, "intermediate_size": 40, "num_hidden_layers": 2, "num_quantizers": GROUPS,
        "upsample_rates": [3, 2], "upsampling_ratios": [2, 2], "decoder_dim": 24, "max_position_embeddings": 512,
        "rope_parameters": dict(_PLAIN_ROPE),
    }  # fmt: skip
    thinker = {
        f"{name}_config": {**part, **sizes.get(name, {})}
        for name, part in (("text", text), ("audio", audio), ("vision", vision))
    }
    return Qwen3OmniMoeConfig(
        thinker_config={**thinker, "user_token_id": USER, **_IDS}, talker_config=talker,
        code2wav_config={**code2wav, **sizes.get("code2wav", {})}, im_start_token_id=TURN,
        im_end_token_id=TURN_END, tts_pad_token_id=SPEECH_PAD, tts_bos_token_id=SPEECH_BOS,
        tts_eos_token_id=SPEECH_END, system_token_id=SYSTEM, user_token_id=USER, assistant_token_id=ASSISTANT,
    )  # fmt: skip


def build(folder: Path, seed: int, *, sizes: Sizes = SMALLEST) -> Any:
    """A random model, saved to `folder`, as transformers loads it from there."""
    from transformers.models.qwen3_omni_moe.modeling_qwen3_omni_moe import Qwen3OmniMoeForConditionalGeneration

    model = Qwen3OmniMoeForConditionalGeneration(config(sizes)).eval()
    stir(model, seed, gain=1.3)
    stir(model.code2wav, seed + 2)  # without gain: rounding errors must not grow on their way through it
    generator = torch.Generator().manual_seed(seed + 1)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if ".experts." in name:  # [experts, rows, columns]: the fan-in is the last axis
                parameter.normal_(0, parameter.shape[-1] ** -0.5, generator=generator)
            elif name.endswith(("layer_scale.scale", "gamma")):
                parameter.fill_(0.3)
        # large tables, or the text that is added drowns the codes and greedy decoding repeats itself
        tables = [model.talker.model.codec_embedding, *model.talker.code_predictor.model.codec_embedding]
        for table in tables:
            table.weight.normal_(0, 1.5, generator=generator)
        for head in (model.talker.codec_head, model.thinker.lm_head, *model.talker.code_predictor.lm_head):
            head.weight.mul_(2.0)
        last = model.code2wav.decoder[-1].conv
        kept: list[Tensor] = []
        handle = last.register_forward_hook(lambda _module, _given, result: kept.append(result))
        model.code2wav(torch.randint(0, CODES, (1, GROUPS, 24), generator=generator))
        handle.remove()
        last.weight.mul_(0.2 / kept[0].std())
        last.bias.zero_()
    model.save_pretrained(folder)
    return Qwen3OmniMoeForConditionalGeneration.from_pretrained(folder, dtype=torch.float32).eval()


TEMPLATE = (
    "{% for m in messages %}<turn>{{ m.role }}\n{% if m.content is string %}{{ m.content }}{% else %}"
    "{% for part in m.content %}{% if part.type == 'image' %}w205 w201 w206 {% elif part.type == 'audio' %}"
    "w203 w200 w204 {% else %}{{ part.text }}{% endif %}{% endfor %}{% endif %}<end>\n{% endfor %}"
    "<turn>assistant{{ '\\n' }}"
)
PREPROCESSING = {
    "feature_extractor_type": "WhisperFeatureExtractor", "feature_size": MELS, "sampling_rate": 16000,
    "hop_length": 160, "n_fft": 400, "padding_side": "right", "return_attention_mask": True,
    "image_processor_type": "Qwen2VLImageProcessor", "patch_size": 2, "merge_size": 2, "temporal_patch_size": 2,
    "min_pixels": 16, "max_pixels": 400, "image_mean": [0.5, 0.5, 0.5], "image_std": [0.5, 0.5, 0.5],
}  # fmt: skip


def add_tokenizer(folder: Path) -> Any:
    """One id per word, a chat template, and how sounds and pictures are prepared; returns the tokenizer."""
    from tokenizers import AddedToken, Tokenizer
    from tokenizers.models import WordLevel
    from tokenizers.pre_tokenizers import Split

    specials = {TURN: "<turn>", TURN_END: "<end>", USER: "user", ASSISTANT: "assistant", LINE: "\n"}
    words = {specials.get(i, f"w{i}"): i for i in range(VOCABULARY)}
    tokenizer = Tokenizer(WordLevel(words, unk_token="w0"))
    tokenizer.pre_tokenizer = Split(" ", "removed")
    tokenizer.add_special_tokens([AddedToken(text, special=True) for text in specials.values()])
    tokenizer.save(str(folder / "tokenizer.json"))
    (folder / "chat_template.jinja").write_text(TEMPLATE, encoding="utf-8")
    (folder / "preprocessor_config.json").write_text(json.dumps(PREPROCESSING), encoding="utf-8")
    return tokenizer


def cases() -> dict[str, Case]:
    """Text, sound and picture in; greedy and sampled; one row and a padded batch."""
    generator = torch.Generator().manual_seed(7)

    def ids(count: int) -> tuple[int, ...]:
        return tuple(torch.randint(0, 200, (count,), generator=generator).tolist())

    def chat(*body: int) -> tuple[int, ...]:
        return (TURN, USER, LINE, *body, TURN_END, LINE, TURN, ASSISTANT, LINE)

    features = torch.randn(MELS, 120, generator=generator)
    sound = chat(*ids(2), AUDIO_START, *[AUDIO] * 16, AUDIO_END, *ids(3))  # 13 of a whole second, 3 of a fifth
    grid = (1, 4, 6)
    pixels = torch.randn(24, 3 * 2 * 2 * 2, generator=generator)
    picture = chat(*ids(2), VISION_START, *[IMAGE] * 6, VISION_END, *ids(3))
    turns = (TURN, SYSTEM, LINE, *ids(4), TURN_END, LINE, *chat(*ids(5)), *ids(6), TURN_END, LINE, *chat(*ids(4)))
    text = (chat(*ids(9)),)
    return {
        "text": Case(prompts=text),
        "turns": Case(prompts=(turns,)),
        "codes_sampled": Case(prompts=text, sample_codes=True),
        "all_sampled": Case(prompts=text, sample_text=True, sample_codes=True),
        "padded_batch": Case(prompts=(chat(*ids(8)), chat(*ids(5))), penalty=1.0),
        "sound": Case(prompts=(sound,), features=features),
        "picture": Case(prompts=(picture,), pixels=pixels, grid=grid),
    }


def record(model: Any, case: Case, *, seed: int, voice: str = VOICES[0]) -> Recording:
    """Runs transformers' own `generate` and keeps what crossed from stage to stage."""
    inputs = _inputs(case)
    seen: dict[str, Tensor] = {}

    def see_thinker(_given: Mapping[str, Any], result: Any) -> None:
        steps, layer = result.hidden_states, model.config.talker_config.accept_hidden_layer
        seen["embeds"] = torch.cat([step[0] for step in steps], 1)
        seen["accept"] = torch.cat([step[layer] for step in steps], 1)

    def see_talker(given: Mapping[str, Any], result: Any) -> None:
        for name in ("inputs_embeds", "trailing_text_hidden", "attention_mask"):
            seen[f"talker.{name}"] = given[name]
        frames = [step[-1] for step in result.hidden_states if step[-1] is not None]
        seen["frames"] = torch.stack(frames, 1)

    with torch.no_grad(), ExitStack() as stack:
        stack.enter_context(watching(model.thinker, "generate", see_thinker))
        stack.enter_context(watching(model.talker, "generate", see_talker))
        torch.manual_seed(seed)
        sequences, waves = model.generate(**inputs, speaker=voice, **_options(case))
    return Recording(
        inputs=inputs,
        seed=seed,
        crossed=seen,
        text=[_until(row, case.eos) for row in sequences[:, inputs["input_ids"].shape[1] :].tolist()],
        codes=[_frames(row) for row in seen["frames"].tolist()],
        waves=[wave.reshape(-1) for wave in (waves if isinstance(waves, list) else [waves])],
    )


def _inputs(case: Case) -> dict[str, Tensor]:
    longest = max(len(row) for row in case.prompts)
    rows = [(longest - len(row), row) for row in case.prompts]
    inputs = {
        "input_ids": torch.tensor([[SPEECH_PAD] * missing + list(row) for missing, row in rows]),
        "attention_mask": torch.tensor([[0] * missing + [1] * len(row) for missing, row in rows]),
    }
    if case.features is not None:
        inputs["input_features"] = case.features[None]
        inputs["feature_attention_mask"] = torch.ones(1, case.features.shape[1], dtype=torch.int64)
    if case.pixels is not None:
        inputs["pixel_values"] = case.pixels
        inputs["image_grid_thw"] = torch.tensor([case.grid])
    return inputs


def _options(case: Case) -> dict[str, Any]:
    sampled = {"thinker_do_sample": True, "thinker_temperature": 0.8, "thinker_top_p": 0.9}
    return {
        "return_audio": True,
        "thinker_max_new_tokens": case.max_text,
        "thinker_eos_token_id": case.eos,
        "talker_max_new_tokens": case.max_frames + 1,  # the last code of the first group never becomes a frame
        "talker_do_sample": case.sample_codes,
        "talker_repetition_penalty": case.penalty,
        **(sampled if case.sample_text else {}),
    }


def _until(ids: list[int], stop: int) -> list[int]:
    return next((ids[:i] for i, value in enumerate(ids) if value == stop), ids)


def _frames(rows: list[list[int]]) -> Any:
    return next((rows[:i] for i, row in enumerate(rows) if row[0] == CODEC_END), rows)
