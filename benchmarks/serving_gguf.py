"""A Hugging Face Llama folder as one GGUF file, for llama.cpp; needs numpy and `gguf` alone.

Format: https://github.com/ggml-org/ggml/blob/master/docs/gguf.md. Rows of q and k go from halves to interleaved pairs.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import gguf
import numpy as np
from numpy.typing import NDArray

LAYER_NAMES = {
    "input_layernorm": "attn_norm",
    "self_attn.q_proj": "attn_q",
    "self_attn.k_proj": "attn_k",
    "self_attn.v_proj": "attn_v",
    "self_attn.o_proj": "attn_output",
    "post_attention_layernorm": "ffn_norm",
    "mlp.gate_proj": "ffn_gate",
    "mlp.up_proj": "ffn_up",
    "mlp.down_proj": "ffn_down",
}
TOP_NAMES = {"model.embed_tokens": "token_embd", "model.norm": "output_norm", "lm_head": "output"}


def write(folder: Path, path: Path, kind: str) -> None:
    """The folder's weights with all matrices as `kind` (F32, BF16, Q8_0, Q4_0), without a tokenizer."""
    config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    writer = gguf.GGUFWriter(path, "llama")
    _add_shape(writer, config)
    quantized = gguf.GGMLQuantizationType[kind]
    heads = {"attn_q": config["num_attention_heads"], "attn_k": config["num_key_value_heads"]}
    for name, values in _tensors(folder):
        renamed = _gguf_name(name)
        role = renamed.split(".")[-2]
        rows = _interleaved(values, heads[role]) if role in heads else values
        if rows.ndim == 1 or kind == "F32":
            writer.add_tensor(renamed, rows)
        else:
            writer.add_tensor(renamed, gguf.quantize(rows, quantized), raw_dtype=quantized)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def _add_shape(writer: Any, config: dict[str, Any]) -> None:
    rope = config.get("rope_parameters") or {}
    writer.add_context_length(config["max_position_embeddings"])
    writer.add_embedding_length(config["hidden_size"])
    writer.add_block_count(config["num_hidden_layers"])
    writer.add_feed_forward_length(config["intermediate_size"])
    writer.add_head_count(config["num_attention_heads"])
    writer.add_head_count_kv(config["num_key_value_heads"])
    writer.add_layer_norm_rms_eps(config["rms_norm_eps"])
    writer.add_rope_dimension_count(config.get("head_dim") or config["hidden_size"] // config["num_attention_heads"])
    writer.add_rope_freq_base(rope.get("rope_theta") or config.get("rope_theta", 10000.0))
    writer.add_vocab_size(config["vocab_size"])
    writer.add_tokenizer_model("none")


def _gguf_name(name: str) -> str:
    stem, suffix = name.rsplit(".", 1)
    if stem in TOP_NAMES:
        return f"{TOP_NAMES[stem]}.{suffix}"
    _, _, layer, role = stem.split(".", 3)
    return f"blk.{layer}.{LAYER_NAMES[role]}.{suffix}"


def _interleaved(rows: NDArray[np.float32], heads: int) -> NDArray[np.float32]:
    """[heads * D, in]: row j * D/2 + i of a head becomes row 2i + j."""
    halves = rows.reshape(heads, 2, -1, rows.shape[-1])
    return np.ascontiguousarray(halves.swapaxes(1, 2).reshape(rows.shape))


def _tensors(folder: Path) -> Iterator[tuple[str, NDArray[np.float32]]]:
    """All tensors of the folder's safetensors files as float32: F32, F16 and BF16, which numpy has no name for."""
    for path in sorted(folder.glob("*.safetensors")):
        data = np.memmap(path, dtype=np.uint8, mode="r")
        size = int.from_bytes(data[:8].tobytes(), "little")
        header = json.loads(data[8 : 8 + size].tobytes())
        for name, entry in header.items():
            if name != "__metadata__":
                begin, end = (8 + size + offset for offset in entry["data_offsets"])
                yield name, _floats(data[begin:end], entry["dtype"]).reshape(entry["shape"])


def _floats(data: NDArray[np.uint8], dtype: str) -> NDArray[np.float32]:
    if dtype == "BF16":
        return (data.view(np.uint16).astype(np.uint32) << 16).view(np.float32)
    return data.view({"F32": np.float32, "F16": np.float16}[dtype]).astype(np.float32)
