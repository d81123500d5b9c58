"""Tiny transformers models of every shape that the lean decoder claims, and their greedy continuations."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from omniflow.experts.lean import LeanDecoder, load
from omniflow.roles import SequenceState, TokenRows

SIZES = {
    "vocab_size": 97,
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "initializer_range": 0.2,
    "max_position_embeddings": 256,
}
LLAMA3 = {
    "rope_type": "llama3",
    "rope_theta": 10000.0,
    "factor": 8.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 16,
}
MOE = {"num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 24}


def configs() -> dict[str, Any]:
    from transformers import LlamaConfig, Qwen2Config, Qwen3Config, Qwen3MoeConfig

    return {
        "llama": LlamaConfig(**SIZES),
        "llama_tied_biased_llama3": LlamaConfig(
            **SIZES, tie_word_embeddings=True, attention_bias=True, mlp_bias=True, rope_parameters=dict(LLAMA3)
        ),
        "qwen2": Qwen2Config(**SIZES),
        "qwen3": Qwen3Config(**SIZES, head_dim=16),
        "qwen3_moe": Qwen3MoeConfig(**SIZES, **MOE, head_dim=16, norm_topk_prob=True),
        "qwen3_moe_mixed": Qwen3MoeConfig(**SIZES, **MOE, head_dim=8, norm_topk_prob=False, mlp_only_layers=[1]),
    }


def make(name: str, folder: Path) -> Any:
    """A transformers model with stirred biases and norms, saved to `folder`."""
    from transformers import AutoModelForCausalLM

    torch.manual_seed(3)
    model = AutoModelForCausalLM.from_config(configs()[name], dtype=torch.float32).eval()
    with torch.no_grad():
        for parameter_name, parameter in model.named_parameters():
            if parameter.dim() == 1:
                parameter.add_(torch.randn_like(parameter) * 0.1)
            elif "experts" in parameter_name or "gate.weight" in parameter_name:
                parameter.normal_(0, 0.2)
    model.save_pretrained(folder)
    return model


def lean(
    folder: Path, dtype: torch.dtype = torch.float32, cache_tokens: int = 512, *, native: bool = True
) -> LeanDecoder:
    cpu = torch.device("cpu")
    return load(folder, dtype=dtype, device=cpu, cache_tokens=cache_tokens, block_tokens=8, native=native)


def prompts(count: int, vocab: int = 97) -> list[Tensor]:
    generator = torch.Generator().manual_seed(11)
    return [torch.randint(0, vocab, (3 + 5 * i,), generator=generator) for i in range(count)]


def reference(model: Any, prompt: Tensor, new: int) -> list[int]:
    out = model.generate(
        prompt[None],
        attention_mask=torch.ones_like(prompt[None]),
        max_new_tokens=new,
        do_sample=False,
        eos_token_id=None,
    )
    return [int(token) for token in out[0, prompt.shape[0] :]]


def greedy(decoder: LeanDecoder, tokens: list[Tensor], new: int, *, chunk: int | None = None) -> list[list[int]]:
    """Greedy ids for several prompts decoded together; prompts enter in chunks, beside the others' decode rows."""
    states = [_opened(decoder, token.shape[0] + new) for token in tokens]
    pending = [token.clone() for token in tokens]
    produced: list[list[int]] = [[] for _ in tokens]
    while any(len(ids) < new for ids in produced):
        active = [i for i, ids in enumerate(produced) if len(ids) < new]
        size = [len(pending[i]) if chunk is None else min(chunk, len(pending[i])) for i in active]
        rows = [
            TokenRows(sequence=states[i], ids=pending[i][:n], wants_logits=n == len(pending[i]))
            for i, n in zip(active, size, strict=True)
        ]
        for i, n, result in zip(active, size, decoder.step(rows), strict=True):
            pending[i] = pending[i][n:]
            if result.logits is not None:
                produced[i].append(int(result.logits.argmax()))
                pending[i] = torch.tensor(produced[i][-1:])
    for state in states:
        decoder.close(state)
    return produced


def _opened(decoder: LeanDecoder, max_positions: int) -> SequenceState:
    state = decoder.open({}, max_positions=max_positions)
    assert state is not None
    return state
