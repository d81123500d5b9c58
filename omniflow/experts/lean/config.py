"""The shape of a decoder, read from a Hugging Face `config.json` and refused field by field when it is not ours."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from omniflow.experts.lean.errors import CheckpointError
from omniflow.experts.lean.rope import RopeConfig, parse_rope

Json = Any


@dataclass(frozen=True, slots=True, kw_only=True)
class MoeConfig:
    """A mixture of experts in place of the dense feed-forward part (Qwen3-MoE; with a shared expert: Qwen2-MoE).

    `dense_layers` keep an ordinary feed-forward part of `LeanConfig.intermediate_size`.
    """

    num_experts: int
    top_k: int
    intermediate_size: int
    normalise_top_k: bool
    shared_intermediate_size: int | None
    dense_layers: frozenset[int]


@dataclass(frozen=True, slots=True, kw_only=True)
class LeanConfig:
    """Sizes and switches of a pre-norm, rotary, SiLU-gated decoder with grouped-query attention."""

    vocab_size: int
    hidden_size: int
    intermediate_size: int
    num_layers: int
    num_heads: int
    num_kv_heads: int
    head_dim: int
    norm_eps: float
    rope: RopeConfig
    qkv_bias: bool = False
    output_bias: bool = False
    mlp_bias: bool = False
    qk_norm: bool = False
    tied_head: bool = False
    moe: MoeConfig | None = None

    def __post_init__(self) -> None:
        if self.num_heads % self.num_kv_heads:
            raise CheckpointError(f"num_attention_heads {self.num_heads} / num_key_value_heads {self.num_kv_heads}")
        if self.head_dim % 2:
            raise CheckpointError(f"head_dim {self.head_dim}: rotary positions need an even number")

    def is_moe_layer(self, layer: int) -> bool:
        """Whether a layer has experts in place of a dense feed-forward part."""
        return self.moe is not None and layer not in self.moe.dense_layers


@dataclass(frozen=True, slots=True, kw_only=True)
class _Family:
    """What a `model_type` means where `config.json` does not say it. None: the field `attention_bias` decides."""

    qkv_bias: bool | None = None
    output_bias: bool | None = None
    qk_norm: bool = False
    moe: bool = False
    shared_expert: bool = False
    mrope_section: tuple[int, ...] | None = None
    mrope_interleaved: bool = False


_QWEN2 = _Family(qkv_bias=True, output_bias=False)
_QWEN2_MROPE = _Family(qkv_bias=True, output_bias=False, mrope_section=(16, 24, 24))
_QWEN3_MROPE = _Family(qk_norm=True, mrope_section=(24, 20, 20), mrope_interleaved=True)
_FAMILIES: Mapping[str, _Family] = {
    "llama": _Family(),
    "qwen2": _QWEN2,
    "qwen2_5_vl_text": _QWEN2_MROPE,
    "qwen2_5_omni_text": _QWEN2_MROPE,
    "qwen2_5_omni_talker": _QWEN2_MROPE,
    "qwen3": _Family(qk_norm=True),
    "qwen3_moe": _Family(qk_norm=True, moe=True),
    "qwen3_vl_text": _QWEN3_MROPE,
    "qwen3_omni_moe_text": _Family(qk_norm=True, moe=True, mrope_section=(24, 20, 20), mrope_interleaved=True),
    "qwen3_omni_moe_talker_text": _Family(
        qk_norm=True, moe=True, shared_expert=True, mrope_section=(24, 20, 20), mrope_interleaved=True
    ),
    "qwen3_omni_moe_talker_code_predictor": _Family(qk_norm=True),
}


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


_SHAPE_FIELDS = _words(
    "model_type vocab_size hidden_size intermediate_size num_hidden_layers num_attention_heads num_key_value_heads "
    "head_dim rms_norm_eps hidden_act tie_word_embeddings attention_bias mlp_bias rope_parameters rope_theta "
    "rope_scaling sliding_window use_sliding_window layer_types max_position_embeddings"
)
_MOE_FIELDS = _words(
    "num_experts num_local_experts num_experts_per_tok moe_intermediate_size norm_topk_prob decoder_sparse_step "
    "mlp_only_layers shared_expert_intermediate_size"
)
# Fields that say nothing about what the forward pass computes at inference.
_SILENT_FIELDS = _words(
    "architectures torch_dtype dtype transformers_version use_cache initializer_range attention_dropout "
    "pretraining_tp output_router_logits router_aux_loss_coef max_window_layers is_llama_config problem_type "
    "chunk_size_feed_forward is_encoder_decoder return_dict output_attentions output_hidden_states id2label label2id "
    "rope_interleaved spatial_merge_size position_id_per_seconds seconds_per_chunk embedding_size num_code_groups "
    "thinker_hidden_size accept_hidden_layer speaker_id experts_implementation attn_implementation"
)


def read_config(folder: Path, *, section: str = "") -> LeanConfig:
    """The decoder's config from `folder/config.json`; `section` is a dotted path inside, e.g. `thinker_config`.

    Errors: CheckpointError naming the file and the field.
    """
    path = folder / "config.json"
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise CheckpointError(f"{path}: not found; the folder of a Hugging Face model has a config.json") from None
    except (OSError, UnicodeDecodeError, json.JSONDecodeError) as error:
        raise CheckpointError(f"{path}: cannot be read as JSON: {error}") from None
    for key in section.split(".") if section else []:
        if not isinstance(data, dict) or not isinstance(data.get(key), dict):
            raise CheckpointError(f"{path}: there is no section `{section}`")
        data = data[key]
    if not isinstance(data, dict):
        raise CheckpointError(f"{path}: expected an object")
    return parse_config(data, where=str(path))


def parse_config(data: Mapping[str, Json], *, where: str) -> LeanConfig:
    """A decoder config from the fields of a Hugging Face text config. Errors: CheckpointError naming the field."""
    fields = _Fields(data, where)
    family = fields.family()
    fields.refuse_unknown(moe=family.moe)
    fields.refuse_unsupported()
    heads, hidden = fields.integer("num_attention_heads"), fields.integer("hidden_size")
    bias = fields.flag("attention_bias")
    head_dim = fields.integer("head_dim", hidden // heads)
    layers = fields.integer("num_hidden_layers")
    return LeanConfig(
        vocab_size=fields.integer("vocab_size"),
        hidden_size=hidden,
        intermediate_size=fields.integer("intermediate_size"),
        num_layers=layers,
        num_heads=heads,
        num_kv_heads=fields.integer("num_key_value_heads", heads),
        head_dim=head_dim,
        norm_eps=fields.number("rms_norm_eps", 1e-6),
        rope=parse_rope(
            data,
            head_dim=head_dim,
            where=where,
            mrope_section=family.mrope_section,
            mrope_interleaved=family.mrope_interleaved,
        ),
        qkv_bias=bias if family.qkv_bias is None else family.qkv_bias,
        output_bias=bias if family.output_bias is None else family.output_bias,
        mlp_bias=fields.flag("mlp_bias"),
        qk_norm=family.qk_norm,
        tied_head=fields.flag("tie_word_embeddings"),
        moe=_parse_moe(fields, layers, shared=family.shared_expert) if family.moe else None,
    )


def _parse_moe(fields: _Fields, num_layers: int, *, shared: bool) -> MoeConfig:
    data = fields.data
    count = "num_experts" if "num_experts" in data else "num_local_experts"
    stride = fields.integer("decoder_sparse_step", 1)
    listed = frozenset(data.get("mlp_only_layers") or ())
    # A talker with a shared expert has experts in every layer, whatever the two fields say (its reference does so too).
    dense = frozenset() if shared else listed | {i for i in range(num_layers) if (i + 1) % stride}
    top_k, experts = fields.integer("num_experts_per_tok"), fields.integer(count)
    if top_k > experts:
        raise CheckpointError(f"{fields.where}: num_experts_per_tok {top_k} is more than {count} {experts}")
    return MoeConfig(
        num_experts=experts,
        top_k=top_k,
        intermediate_size=fields.integer("moe_intermediate_size"),
        normalise_top_k=fields.flag("norm_topk_prob"),
        shared_intermediate_size=fields.integer("shared_expert_intermediate_size") if shared else None,
        dense_layers=dense,
    )


class _Fields:
    """Typed look-ups in one JSON object, with errors that name the field."""

    def __init__(self, data: Mapping[str, Json], where: str) -> None:
        self.data = data
        self.where = where

    def family(self) -> _Family:
        name = self.data.get("model_type")
        if not isinstance(name, str) or name not in _FAMILIES:
            raise CheckpointError(
                f"{self.where}: model_type {name!r} is not a shape of the lean decoder; it knows "
                + ", ".join(sorted(_FAMILIES))
            )
        return _FAMILIES[name]

    def integer(self, name: str, default: int | None = None) -> int:
        value = self.data.get(name)
        if value is None and default is not None:
            return default
        if not isinstance(value, int) or isinstance(value, bool) or value < 1:
            raise CheckpointError(f"{self.where}: {name} must be a positive integer, not {value!r}")
        return value

    def number(self, name: str, default: float) -> float:
        value = self.data.get(name, default)
        if not isinstance(value, (int, float)) or isinstance(value, bool):
            raise CheckpointError(f"{self.where}: {name} must be a number, not {value!r}")
        return float(value)

    def flag(self, name: str) -> bool:
        value = self.data.get(name)
        if value is not None and not isinstance(value, bool):
            raise CheckpointError(f"{self.where}: {name} must be true or false, not {value!r}")
        return bool(value)

    def refuse_unknown(self, *, moe: bool) -> None:
        """A field that nobody here reads is refused unless it is switched off or known to be silent."""
        known = _SHAPE_FIELDS | _SILENT_FIELDS | (_MOE_FIELDS if moe else frozenset())
        for name, value in self.data.items():
            is_token = name.endswith(("_token_id", "_token_index", "_id", "_ids"))
            is_private = name.startswith("_") or "." in name
            if name not in known and value and not is_token and not is_private:
                raise CheckpointError(f"{self.where}: field {name} = {value!r} is not supported by the lean decoder")

    def refuse_unsupported(self) -> None:
        """Known fields with values that would change the computation in a way that is not implemented."""
        data = self.data
        if data.get("hidden_act", "silu") not in ("silu", "swish"):
            raise CheckpointError(f"{self.where}: hidden_act {data['hidden_act']!r} is not supported, only silu")
        kinds = set(data.get("layer_types") or ()) - {"full_attention"}
        windowed = data.get("sliding_window") is not None and data.get("use_sliding_window", True)
        if kinds or (windowed and "layer_types" not in data):
            field = f"layer_types {sorted(kinds)}" if kinds else f"sliding_window {data['sliding_window']}"
            raise CheckpointError(f"{self.where}: {field} is not supported, only full attention")
        if data.get("rope_interleaved"):
            raise CheckpointError(f"{self.where}: rope_interleaved is not supported")
