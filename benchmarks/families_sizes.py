"""Two sizes of every family: the smallest in which every part does something, and one that takes about a second."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class Size:
    """parts: what each part's configuration has in place of the smallest; asked: lengths of a request, by name; seed:

    of the weights, one with which few speeches end early.
    """

    parts: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    asked: Mapping[str, int]
    seed: int = 0


_ROPE = {"rope_type": "default", "rope_theta": 10000.0}
_SECTIONS = {**_ROPE, "mrope_section": [8, 12, 12]}
_INTERLEAVED = {**_ROPE, "mrope_section": [12, 10, 10], "interleaved": True}
_WIDE = {
    "hidden_size": 512, "intermediate_size": 1024, "num_hidden_layers": 4, "num_attention_heads": 8,
    "num_key_value_heads": 2,
}  # fmt: skip
_HALF = {
    "hidden_size": 256, "intermediate_size": 512, "num_hidden_layers": 4, "num_attention_heads": 4,
    "num_key_value_heads": 2,
}  # fmt: skip
_MOE = {"num_experts": 8, "num_experts_per_tok": 2, "head_dim": 64}

QWEN2_5_OMNI = {
    "text": {**_WIDE, "rope_parameters": _SECTIONS},
    "audio": {"output_dim": 512},
    "vision": {"out_hidden_size": 512},
    "talker": {**_HALF, "embedding_size": 512, "head_dim": 64, "rope_parameters": _SECTIONS},
    "dit": {"hidden_size": 64, "num_attention_heads": 4, "head_dim": 16, "emb_dim": 32},
    "bigvgan": {"upsample_initial_channel": 32},
}
QWEN3_OMNI = {
    "text": {**_WIDE, **_MOE, "moe_intermediate_size": 256, "rope_parameters": _INTERLEAVED},
    "audio": {"output_dim": 512},
    "vision": {"out_hidden_size": 512},
    "talker_text": {
        **_HALF, **_MOE, "moe_intermediate_size": 128, "shared_expert_intermediate_size": 128,
        "rope_parameters": _INTERLEAVED,
    },
    "predictor": {**_HALF, "num_hidden_layers": 3, "head_dim": 64},
    "talker": {"thinker_hidden_size": 512, "accept_hidden_layer": 2},
    "code2wav": {
        "hidden_size": 128, "num_attention_heads": 4, "num_key_value_heads": 4, "head_dim": 32,
        "intermediate_size": 256, "num_hidden_layers": 4, "decoder_dim": 96,
    },
}  # fmt: skip
CSM = {
    "backbone": _WIDE,
    "depth": {**_HALF, "num_hidden_layers": 3, "backbone_hidden_size": 512},
    "codec": {
        "hidden_size": 64, "upsample_groups": 64, "num_filters": 16, "head_dim": 16, "num_attention_heads": 4,
        "num_key_value_heads": 4, "intermediate_size": 128,
    },
}  # fmt: skip
MUSICGEN = {
    "text": {"d_model": 256, "d_kv": 64, "d_ff": 512, "num_layers": 4, "num_heads": 4},
    "decoder": {"hidden_size": 512, "ffn_dim": 2048, "num_hidden_layers": 4, "num_attention_heads": 8},
    "codec": {"hidden_size": 64, "codebook_dim": 64, "num_filters": 8},
}
COSMOS3 = {
    "mixture": {**_WIDE, "head_dim": 64, "rope_axes_dim": [12, 10, 10]},
    "vae": {"base_dim": 8},
}
FLUX = {
    "transformer": {
        "num_layers": 2, "num_single_layers": 4, "attention_head_dim": 64, "num_attention_heads": 8,
        "axes_dims_rope": (16, 24, 24),
    },
    "vae": {"block_out_channels": (16, 32)},
}  # fmt: skip
WAN = {
    "transformer": {"num_attention_heads": 8, "attention_head_dim": 64, "ffn_dim": 1024, "num_layers": 4},
    "vae": {"base_dim": 8},
}

SIZES: Mapping[str, Mapping[str, Size]] = {
    "qwen2_5_omni": {
        "tiny": Size(asked={"text": 12, "codes": 120}),
        "mid": Size(parts=QWEN2_5_OMNI, asked={"text": 24, "codes": 150}),
    },
    "qwen3_omni": {
        "tiny": Size(asked={"text": 12, "frames": 30}, seed=3),
        "mid": Size(parts=QWEN3_OMNI, asked={"text": 24, "frames": 40}, seed=2),
    },
    "csm": {"tiny": Size(asked={"frames": 30}), "mid": Size(parts=CSM, asked={"frames": 40})},
    "musicgen": {"tiny": Size(asked={"frames": 60}), "mid": Size(parts=MUSICGEN, asked={"frames": 60})},
    "cosmos3": {
        "tiny": Size(asked={"steps": 8, "side": 32}),
        "mid": Size(parts=COSMOS3, asked={"steps": 8, "side": 64}),
    },
    "flux": {"tiny": Size(asked={"steps": 12, "side": 32}), "mid": Size(parts=FLUX, asked={"steps": 4, "side": 48})},
    "wan": {"tiny": Size(asked={"steps": 12, "side": 32}), "mid": Size(parts=WAN, asked={"steps": 8, "side": 64})},
}
