"""The character-to-phoneme BART from its npz to an ordinary Hugging Face BART folder with its two alphabets.

Checkpoint: PeterReid/graphemes_to_phonemes_en_us (Apache-2.0), one encoder and one decoder layer, one head.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from omniflow.weights.files import write_json
from omniflow.weights.tensors import save_model

META = "meta_json"
SPECIALS = 4  # both alphabets start with pad, begin, end, unknown


def convert(files: Mapping[str, Path], folder: Path) -> None:
    """model.safetensors, config.json, vocab.json (`characters` and `phonemes`: symbol to id)."""
    (path,) = files.values()
    with np.load(path, allow_pickle=False) as archive:
        meta = json.loads(str(archive[META]))
        arrays = {name: archive[name].astype(np.float32) for name in archive.files if name != META}
    save_model(folder, arrays)
    write_json(folder / "config.json", _config(meta, vocab_size=len(arrays["model.shared.weight"])))
    write_json(
        folder / "vocab.json",
        {"characters": _alphabet(meta["grapheme_chars"]), "phonemes": _alphabet(meta["phoneme_chars"])},
    )


def _alphabet(symbols: str) -> dict[str, int]:
    return {symbol: i for i, symbol in enumerate(symbols) if i >= SPECIALS}


def _config(meta: Mapping[str, Any], *, vocab_size: int) -> dict[str, Any]:
    sides = ("encoder", "decoder")
    return {
        "architectures": ["BartForConditionalGeneration"],
        "model_type": "bart",
        "vocab_size": vocab_size,
        "d_model": meta["d_model"],
        **{f"{side}_layers": 1 for side in sides},
        **{f"{side}_attention_heads": meta["num_heads"] for side in sides},
        **{f"{side}_ffn_dim": meta["ffn_dim"] for side in sides},
        "max_position_embeddings": meta["max_position_embeddings"],
        "activation_function": "gelu",
        "scale_embedding": False,
        "tie_word_embeddings": True,
        "pad_token_id": meta["pad_token_id"],
        "bos_token_id": meta["bos_token_id"],
        "eos_token_id": meta["eos_token_id"],
        "unk_token_id": SPECIALS - 1,
        "decoder_start_token_id": meta["decoder_start_token_id"],
        "forced_eos_token_id": None,
        "torch_dtype": "float32",
    }
