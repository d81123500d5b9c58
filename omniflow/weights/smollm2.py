"""SmolLM2 from GGUF to an ordinary Hugging Face Llama folder, which transformers itself can load.

Format: https://github.com/ggml-org/ggml/blob/master/docs/gguf.md. GGUF keeps the rows of q and k in the order of
interleaved rotary pairs (0, 1), (2, 3), ...; Hugging Face rotates halves, so the rows are sorted back here.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from omniflow.weights.files import write_json
from omniflow.weights.tensors import Arrays, reader, save_model

LAYER_NAMES = {
    "attn_norm": "input_layernorm",
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj",
    "ffn_norm": "post_attention_layernorm",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
}
TOP_NAMES = {"token_embd.weight": "model.embed_tokens.weight", "output_norm.weight": "model.norm.weight"}
CONTROL_TOKEN = 3  # GGUF token type of tokens that are markup, not text


def convert(files: Mapping[str, Path], folder: Path) -> None:
    """model.safetensors, config.json, tokenizer.json, tokenizer_config.json."""
    (path,) = files.values()
    gguf = reader("gguf")
    source = gguf.GGUFReader(path)
    facts = {name: field.contents() for name, field in source.fields.items()}
    config = _config(facts)
    heads = {"attn_q": config["num_attention_heads"], "attn_k": config["num_key_value_heads"]}
    arrays: Arrays = {}
    for tensor in source.tensors:
        values = gguf.dequantize(tensor.data, tensor.tensor_type).astype(np.float32)
        kind = tensor.name.split(".")[-2]
        arrays[_hugging_face_name(tensor.name)] = _half_split(values, heads[kind]) if kind in heads else values
    save_model(folder, arrays)
    write_json(folder / "config.json", config)
    write_json(folder / "tokenizer.json", _tokenizer(facts))
    write_json(folder / "tokenizer_config.json", _tokenizer_config(facts))


def _hugging_face_name(name: str) -> str:
    if name in TOP_NAMES:
        return TOP_NAMES[name]
    _, layer, kind, suffix = name.split(".")
    return f"model.layers.{layer}.{LAYER_NAMES[kind]}.{suffix}"


def _half_split(rows: NDArray[np.float32], heads: int) -> NDArray[np.float32]:
    """[heads * D, in] from interleaved pairs to halves: row 2i + j of a head becomes row j * D/2 + i."""
    pairs = rows.reshape(heads, -1, 2, rows.shape[-1])
    return pairs.swapaxes(1, 2).reshape(rows.shape)


def _config(facts: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "hidden_size": facts["llama.embedding_length"],
        "intermediate_size": facts["llama.feed_forward_length"],
        "num_hidden_layers": facts["llama.block_count"],
        "num_attention_heads": facts["llama.attention.head_count"],
        "num_key_value_heads": facts["llama.attention.head_count_kv"],
        "head_dim": facts["llama.rope.dimension_count"],
        "vocab_size": facts["llama.vocab_size"],
        "max_position_embeddings": facts["llama.context_length"],
        "rope_theta": facts["llama.rope.freq_base"],
        "rms_norm_eps": float(f"{facts['llama.attention.layer_norm_rms_epsilon']:.6g}"),
        "hidden_act": "silu",
        "attention_bias": False,
        "mlp_bias": False,
        "tie_word_embeddings": True,
        "bos_token_id": facts["tokenizer.ggml.bos_token_id"],
        "eos_token_id": facts["tokenizer.ggml.eos_token_id"],
        "pad_token_id": facts["tokenizer.ggml.padding_token_id"],
        "torch_dtype": "float32",
    }


def _tokenizer(facts: Mapping[str, Any]) -> dict[str, Any]:
    """Byte-level BPE with every digit on its own (pre-tokeniser `smollm` of GGUF), as `tokenizers` reads it."""
    tokens, types = facts["tokenizer.ggml.tokens"], facts["tokenizer.ggml.token_type"]
    byte_level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}
    markup = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": True}
    return {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": [
            {"id": i, "content": token, **markup}
            for i, (token, kind) in enumerate(zip(tokens, types, strict=True))
            if kind == CONTROL_TOKEN
        ],
        "normalizer": None,
        "pre_tokenizer": {
            "type": "Sequence",
            "pretokenizers": [{"type": "Digits", "individual_digits": True}, byte_level],
        },
        "post_processor": None,
        "decoder": byte_level,
        "model": {
            "type": "BPE",
            "dropout": None,
            "unk_token": None,
            "continuing_subword_prefix": None,
            "end_of_word_suffix": None,
            "fuse_unk": False,
            "byte_fallback": False,
            "vocab": {token: i for i, token in enumerate(tokens)},
            "merges": [merge.split(" ", 1) for merge in facts["tokenizer.ggml.merges"]],
        },
    }


def _tokenizer_config(facts: Mapping[str, Any]) -> dict[str, Any]:
    tokens = facts["tokenizer.ggml.tokens"]
    return {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "model_max_length": facts["llama.context_length"],
        "clean_up_tokenization_spaces": False,
        "bos_token": tokens[facts["tokenizer.ggml.bos_token_id"]],
        "eos_token": tokens[facts["tokenizer.ggml.eos_token_id"]],
        "pad_token": tokens[facts["tokenizer.ggml.padding_token_id"]],
        "unk_token": tokens[facts["tokenizer.ggml.unknown_token_id"]],
        "chat_template": facts["tokenizer.chat_template"],
    }
