"""Tiny random CSM checkpoints, and what transformers makes of them."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from tests.parity.references import SMALLEST, Sizes, stir

GROUPS, CODES, VOCABULARY = 5, 32, 36  # the last ids of the vocabulary are no codes
PADDING, END = 35, 0
TEXT, TEXT_BOS, AUDIO, AUDIO_END = 80, 2, 70, 71
HOP = 3 * 2 * 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One call of the reference. prompts: text ids of each row."""

    prompts: tuple[tuple[int, ...], ...]
    sample: bool = False
    temperature: float = 0.9
    end: int | None = None
    suppress: tuple[int, ...] = tuple(range(CODES, VOCABULARY))
    max_frames: int = 14


@dataclass(frozen=True, slots=True, kw_only=True)
class Recording:
    """What came out, row by row: frames [n, groups] and samples."""

    seed: int
    codes: list[list[list[int]]]
    waves: list[Tensor]


def config(sizes: Sizes = SMALLEST) -> Any:
    """The smallest configuration in which every part does something: grouped heads, a short window, two ratios.

    sizes: of backbone, depth and codec.
    """
    from transformers import CsmConfig

    rope = {"rope_type": "default", "rope_theta": 10000.0}
    llama3 = {
        "rope_type": "llama3", "rope_theta": 10000.0, "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
        "original_max_position_embeddings": 16,
    }  # fmt: skip
    depth = {
        "num_codebooks": GROUPS, "backbone_hidden_size": 32, "vocab_size": VOCABULARY, "hidden_size": 24,
        "intermediate_size": 48, "num_hidden_layers": 2, "num_attention_heads": 2, "num_key_value_heads": 1,
        "max_position_embeddings": 8, "rope_parameters": dict(rope),
    }  # fmt: skip
    codec = {
        "model_type": "mimi", "sampling_rate": 600, "frame_rate": 50.0, "audio_channels": 1, "hidden_size": 16,
        "num_filters": 4, "num_residual_layers": 2, "upsampling_ratios": [3, 2], "kernel_size": 5,
        "last_kernel_size": 3, "residual_kernel_size": 3, "compress": 2, "codebook_size": CODES, "codebook_dim": 6,
        "num_quantizers": GROUPS, "vector_quantization_hidden_dimension": 6, "num_hidden_layers": 2,
        "intermediate_size": 32, "num_attention_heads": 2, "num_key_value_heads": 1, "head_dim": 8,
        "num_semantic_quantizers": 1, "upsample_groups": 16, "sliding_window": 7, "max_position_embeddings": 256,
    }  # fmt: skip
    backbone = {
        "hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4,
        "num_key_value_heads": 2, "max_position_embeddings": 256, **sizes.get("backbone", {}),
    }  # fmt: skip
    depth |= sizes.get("depth", {})
    codec |= sizes.get("codec", {})
    return CsmConfig(
        **backbone, num_codebooks=GROUPS, vocab_size=VOCABULARY, text_vocab_size=TEXT,
        pad_token_id=1, codebook_pad_token_id=PADDING, codebook_eos_token_id=END, bos_token_id=TEXT_BOS,
        audio_token_id=AUDIO, audio_eos_token_id=AUDIO_END, rope_parameters=dict(llama3), depth_decoder_config=depth,
        codec_config=codec,
    )  # fmt: skip


def build(folder: Path, seed: int, *, sizes: Sizes = SMALLEST) -> Any:
    """A random model, saved to `folder`, as transformers loads it from there."""
    from transformers import CsmForConditionalGeneration

    model = CsmForConditionalGeneration(config(sizes)).eval()
    stir(model, seed, gain=1.2)
    stir(model.codec_model, seed + 1)
    generator = torch.Generator().manual_seed(seed + 2)
    with torch.no_grad():
        for name, buffer in model.codec_model.named_buffers():
            if name.endswith("embed_sum"):
                buffer.normal_(generator=generator)
            elif name.endswith("cluster_usage"):
                buffer.uniform_(0.5, 2.0, generator=generator)
        model.depth_decoder.model.embed_tokens.weight.normal_(generator=generator)
        model.lm_head.weight.mul_(2.0)
        model.depth_decoder.codebooks_head.weight.normal_(0, 0.4, generator=generator)
    model.save_pretrained(folder)
    return CsmForConditionalGeneration.from_pretrained(folder, dtype=torch.float32).eval()


def add_tokenizer(folder: Path) -> None:
    """A few words, and the id that ends a text."""
    from tokenizers import Tokenizer
    from tokenizers.models import WordLevel
    from tokenizers.pre_tokenizers import Whitespace

    words = {word: i for i, word in enumerate("? a b <bos> the sun is out".split())}
    tokenizer = Tokenizer(WordLevel(words, unk_token="?"))
    tokenizer.pre_tokenizer = Whitespace()
    tokenizer.save(str(folder / "tokenizer.json"))
    config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    (folder / "config.json").write_text(json.dumps({**config, "eos_token_id": 3}), encoding="utf-8")


def cases() -> dict[str, Case]:
    """Greedy and sampled; one row and a padded batch."""
    generator = torch.Generator().manual_seed(11)

    def ids(count: int) -> tuple[int, ...]:
        return tuple(torch.randint(3, 70, (count,), generator=generator).tolist())

    return {
        "text": Case(prompts=(ids(9),)),
        "long": Case(prompts=(ids(23),), max_frames=30),
        "sampled": Case(prompts=(ids(9),), sample=True),
        "padded_batch": Case(prompts=(ids(8), ids(5))),
    }


def record(model: Any, case: Case, *, seed: int) -> Recording:
    """Runs transformers' own `generate` and decodes every row alone, as it does itself."""
    longest = max(len(row) for row in case.prompts)
    rows = [(longest - len(row), row) for row in case.prompts]
    ids = torch.tensor([[1] * missing + list(row) for missing, row in rows])
    mask = torch.tensor([[0] * missing + [1] * len(row) for missing, row in rows])
    end = PADDING if case.end is None else case.end  # padding is suppressed
    model.config.codebook_eos_token_id = end
    own = {"temperature": case.temperature, "top_k": 20}
    sampled = {**own, **{f"depth_decoder_{name}": value for name, value in own.items()}}
    with torch.no_grad():
        torch.manual_seed(seed)
        codes = model.generate(
            input_ids=ids, attention_mask=mask, max_new_tokens=case.max_frames, do_sample=case.sample,
            depth_decoder_do_sample=case.sample, suppress_tokens=list(case.suppress),
            depth_decoder_suppress_tokens=list(case.suppress),
            **(sampled if case.sample else {}),
        )  # fmt: skip
        kept = [_until_end(row, end) for row in codes]
        waves = [model.codec_model.decode(row.T[None]).audio_values[0, 0] for row in kept]
    return Recording(seed=seed, codes=[row.tolist() for row in kept], waves=waves)


def _until_end(codes: Tensor, end: int) -> Tensor:
    ends = (codes == end).all(dim=-1).nonzero()
    return codes[: int(ends.min())] if ends.numel() else codes
