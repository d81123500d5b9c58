"""Experts of any Hugging Face model folder."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from omniflow_compiler.library.experts.kv_bytes import kv_bytes
from omniflow_compiler.library.signature import Attribute, ExpertSignature, FromConfig, Port, Ports, Prescribed

_VOCABULARY = FromConfig(path="vocab_size")
_HIDDEN = FromConfig(path="hidden_size", default=2048)


def _matrices(config: Any) -> int | None:
    """Parameters in the matrices of a dense decoder's layers and head; None for a config that is not one."""
    if not isinstance(config, Mapping):
        return None
    sizes = {name: size for name, size in config.items() if isinstance(size, int) and size > 0}
    names = ("hidden_size", "intermediate_size", "num_hidden_layers", "num_attention_heads", "vocab_size")
    if not all(name in sizes for name in names):
        return None
    hidden, inner, layers, heads, vocabulary = (sizes[name] for name in names)
    head = sizes.get("head_dim", hidden // heads)
    attended, cached = heads * head, sizes.get("num_key_value_heads", heads) * head
    attention = hidden * (2 * attended + 2 * cached)
    experts = sizes.get("num_experts") or sizes.get("num_local_experts")
    width = sizes.get("moe_intermediate_size")
    if experts is not None and width is not None:
        return layers * (attention + experts * (3 * hidden * width + hidden)) + vocabulary * hidden
    return layers * (attention + 3 * hidden * inner) + vocabulary * hidden


def _layers(config: Any) -> int | None:
    """The matrices without the head."""
    matrices = _matrices(config)
    return None if matrices is None else matrices - config["vocab_size"] * config["hidden_size"]


def _parameters(config: Any) -> int | None:
    """The matrices and the input embedding, which a tied head shares on disk and not in memory."""
    matrices = _matrices(config)
    return None if matrices is None else matrices + config["vocab_size"] * config["hidden_size"]


def _stop(config: Mapping[str, Any]) -> object:
    """The ids that end a sequence."""
    found = config.get("eos_token_id")
    ids = found if isinstance(found, list) else [found]
    stop = tuple(i for i in ids if isinstance(i, int) and not isinstance(i, bool))
    return stop or None


_DECODE = Ports(
    inputs=(Port(name="prompt", type="tokens[P] < vocabulary"),),
    outputs=(
        Port(name="tokens", type="tokens[T] < vocabulary", streams=True),
        Port(name="hidden", type="act[T, hidden]", streams=True, doc="Final hidden state of each new token."),
        Port(name="embeds", type="act[T, hidden]", streams=True, doc="Input embedding of each new token."),
    ),
)

SCORE = Ports(
    inputs=(
        Port(name="prompt", type="tokens[P] < vocabulary"),
        Port(name="tokens", type="tokens[T] < vocabulary", doc="Those to be scored."),
    ),
    outputs=(Port(name="logprobs", type="f32[T]", streams=True, doc="Natural logarithm of each token's probability."),),
)

SIGNATURES = (
    ExpertSignature(
        use="hf.tokenizer",
        role="tokenizer",
        needs_source=True,
        sizes={"vocabulary": _VOCABULARY},
        doc="The tokenizer and chat template of a model folder (tokenizer.json).",
    ),
    ExpertSignature(
        use="hf.decoder",
        role="language_model",
        needs_source=True,
        serves={"ar_decode": _DECODE, "score": SCORE},
        sizes={"vocabulary": _VOCABULARY, "hidden": _HIDDEN},
        attributes=(
            Attribute(
                name="quantize",
                type="text",
                default="none",
                choices=("none", "int8", "int4"),
                doc="Matrices in fewer bits. `int8`: all, activations too; `int4`: those of the layers, head as int8.",
            ),
        ),
        num_parameters=FromConfig(path="", default=1_000_000_000, read=_parameters),
        num_quantized={
            "int8": FromConfig(path="", default=0, read=_matrices),
            "int4": FromConfig(path="", default=0, read=_layers),
        },
        kv_bytes_per_token=FromConfig(path="", default=0, read=kv_bytes),
        forks=True,
        unit_seconds={"ar_prefill": 0.1, "ar_token": 0.03, "logprob_batch": 0.1},
        prescribes={
            "ar_decode": {"stop": Prescribed(file="generation_config.json", read=_stop, otherwise="config.json")}
        },
        doc="A Llama, Qwen2, Qwen3 or Qwen3-MoE model of any size: config.json and safetensors.",
    ),
)
