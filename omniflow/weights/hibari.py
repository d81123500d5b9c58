"""The hibari voice from ONNX to float32 tensors named after our own modules, with its phoneme ids and its lexicon.

The exporter quantised the matrix products to int8 and lost their names; every product is followed by the addition of
a bias that kept its name, which says whose weight it is.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from omniflow.weights.files import write_json
from omniflow.weights.tensors import Arrays, reader, save_model

RENAMES = (  # exporter's prefix to ours, longest first
    ("m.text.", "acoustic.text."),
    ("m.dec_in.", "vocoder.entry."),
    ("m.dec_norm.", "vocoder.norm."),
    ("m.dec.", "vocoder.blocks."),
    ("m.head.", "vocoder.head."),
    ("pn.text.", "acoustic.prosody.text."),
    ("pn.dur.0.", "acoustic.prosody.duration_in."),
    ("pn.dur.2.", "acoustic.prosody.duration_out."),
    ("pn.pro_in.", "acoustic.prosody.entry."),
    ("pn.pro_out.", "acoustic.prosody.head."),
    ("pn.pro.", "acoustic.prosody.blocks."),
)
PARTS = (
    (".emb.", ".embedding."),
    (".convs.", ".blocks."),
    (".dw.", ".depthwise."),
    (".pw1.", ".expand."),
    (".pw2.", ".contract."),
    (".gamma", ".scale"),
    (".attn.self_attn.in_proj_", ".attention.qkv."),
    (".attn.self_attn.out_proj.", ".attention.out."),
    (".attn.linear1.", ".attention.expand."),
    (".attn.linear2.", ".attention.contract."),
    (".attn.norm1.", ".attention.norm_in."),
    (".attn.norm2.", ".attention.norm_out."),
)
CONFIG = {
    "model_type": "hibari",
    "sample_rate": 24000,
    "hop": 300,
    "n_fft": 1200,
    "text_loops": 4,
    "prosody_loops": 6,
    "text_heads": 2,
    "prosody_dilations": [1, 2, 4, 8, 1, 2],
}


def convert(files: Mapping[str, Path], folder: Path) -> None:
    """model.safetensors (`acoustic.*`, `vocoder.*`), config.json, vocab.json, lexicon.json (word to phonemes)."""
    save_model(folder, {_our_name(name): array for name, array in _tensors(files["assets/hibari.onnx"]).items()})
    write_json(folder / "config.json", CONFIG)
    write_json(folder / "vocab.json", json.loads(files["assets/vocab.json"].read_text(encoding="utf-8")))
    write_json(folder / "lexicon.json", _lexicon(files["assets/lexicon_us_gold.json.gz"]))


def _tensors(path: Path) -> Arrays:
    """Float tensors by the exporter's names, int8 ones expanded to float32."""
    onnx = reader("onnx")
    graph = onnx.load(path).graph
    stored = {tensor.name: onnx.numpy_helper.to_array(tensor) for tensor in graph.initializer}
    found = {name: array for name, array in stored.items() if name.startswith(("m.", "pn."))}
    consumers: dict[str, Any] = {name: node for node in reversed(graph.node) for name in node.input}
    for node in graph.node:
        if node.op_type == "MatMulInteger":
            bias = _bias_after(node, consumers, stored)
            found[_weight_of(bias)] = _dequantised(node.input[1].removesuffix("_quantized"), stored)
    return found


def _bias_after(product: Any, consumers: Mapping[str, Any], stored: Mapping[str, Any]) -> str:
    """Name of the bias: product -> cast -> scale -> add."""
    node = product
    while node.op_type != "Add":
        node = consumers[node.output[0]]
    (bias,) = (name for name in node.input if name in stored)
    return str(bias)


def _weight_of(bias: str) -> str:
    return bias.removesuffix("bias") + "weight"


def _dequantised(name: str, stored: Mapping[str, NDArray[Any]]) -> NDArray[np.float32]:
    """[out, in] of a matrix that ONNX keeps as [in, out] int8 with a zero point and a scale."""
    centred = stored[f"{name}_quantized"].astype(np.float32) - stored[f"{name}_zero_point"].astype(np.float32)
    matrix: NDArray[np.float32] = (centred * stored[f"{name}_scale"]).T.astype(np.float32)
    return matrix


def _our_name(name: str) -> str:
    for theirs, ours in RENAMES:
        if name.startswith(theirs):
            name = ours + name.removeprefix(theirs)
            break
    for theirs, ours in PARTS:
        name = name.replace(theirs, ours)
    return name


def _lexicon(path: Path) -> dict[str, str]:
    """Each word's default reading; those that depend on a part of speech keep the one marked as default."""
    with gzip.open(path, "rt", encoding="utf-8") as file:
        readings: dict[str, Any] = json.load(file)
    plain = {word: r if isinstance(r, str) else r["DEFAULT"] for word, r in readings.items()}
    return {word: plain[word] for word in sorted(plain) if plain[word]}
