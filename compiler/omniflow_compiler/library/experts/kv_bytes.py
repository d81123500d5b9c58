"""What a token of a decoder leaves in its cache, read from a checkpoint's config."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def kv_bytes(config: Any) -> int | None:
    """Bytes of one token's keys and values over all layers in float32; None for a config that does not tell.

    config: the fields of a Hugging Face text config.
    """
    if not isinstance(config, Mapping):
        return None
    sizes = {name: size for name, size in config.items() if isinstance(size, int) and size > 0}
    if not {"hidden_size", "num_hidden_layers", "num_attention_heads"} <= sizes.keys():
        return None
    heads = sizes["num_attention_heads"]
    head = sizes.get("head_dim", sizes["hidden_size"] // heads)
    return 2 * sizes["num_hidden_layers"] * sizes.get("num_key_value_heads", heads) * head * 4
