"""Which tensors a decoder's checkpoint must have: names and shapes, and the check of a source against them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from omniflow.experts.lean.checkpoint import Shape, TensorSource
from omniflow.experts.lean.config import LeanConfig, MoeConfig
from omniflow.experts.lean.errors import CheckpointError


@dataclass(frozen=True, slots=True, kw_only=True)
class TensorNames:
    """Where a checkpoint keeps a decoder.

    body: prefix of `layers.N...` and `norm.weight`; embed, head: full names, None when the decoder is fed embeddings
    or asked for hidden states only; others: prefixes below `body` that belong to somebody else.
    """

    body: str = "model."
    embed: str | None = "model.embed_tokens.weight"
    head: str | None = "lm_head.weight"
    others: tuple[str, ...] = ()

    @staticmethod
    def under(prefix: str) -> TensorNames:
        """The usual names with a prefix that ends in `model.`, e.g. `thinker.model.`; "" means `model.`."""
        body = prefix or "model."
        return TensorNames(
            body=body, embed=f"{body}embed_tokens.weight", head=f"{body.removesuffix('model.')}lm_head.weight"
        )


def expected_shapes(config: LeanConfig, names: TensorNames, *, fused_experts: bool) -> dict[str, Shape]:
    """Every tensor of the decoder. fused_experts: one tensor for all experts instead of three per expert."""
    return dict(_decoder(config, names, fused_experts))


def _decoder(config: LeanConfig, names: TensorNames, fused: bool) -> Iterator[tuple[str, Shape]]:
    table = (config.vocab_size, config.hidden_size)
    if names.embed is not None:
        yield names.embed, table
    if names.head is not None and not (config.tied_head and names.embed is not None):
        yield names.head, table
    yield f"{names.body}norm.weight", (config.hidden_size,)
    for index in range(config.num_layers):
        at = f"{names.body}layers.{index}."
        yield f"{at}input_layernorm.weight", (config.hidden_size,)
        yield f"{at}post_attention_layernorm.weight", (config.hidden_size,)
        yield from _attention(config, f"{at}self_attn.")
        if config.moe is not None and config.is_moe_layer(index):
            yield from _moe(f"{at}mlp.", config.hidden_size, config.moe, fused)
        else:
            yield from _dense(f"{at}mlp.", config.hidden_size, config.intermediate_size, bias=config.mlp_bias)


def _attention(config: LeanConfig, at: str) -> Iterator[tuple[str, Shape]]:
    query, key = config.num_heads * config.head_dim, config.num_kv_heads * config.head_dim
    for letter, size in zip("qkv", (query, key, key), strict=True):
        yield f"{at}{letter}_proj.weight", (size, config.hidden_size)
        if config.qkv_bias:
            yield f"{at}{letter}_proj.bias", (size,)
    if config.qk_norm:
        yield f"{at}q_norm.weight", (config.head_dim,)
        yield f"{at}k_norm.weight", (config.head_dim,)
    yield f"{at}o_proj.weight", (config.hidden_size, query)
    if config.output_bias:
        yield f"{at}o_proj.bias", (config.hidden_size,)


def _moe(at: str, hidden: int, moe: MoeConfig, fused: bool) -> Iterator[tuple[str, Shape]]:
    inner = moe.intermediate_size
    yield f"{at}gate.weight", (moe.num_experts, hidden)
    if fused:
        yield f"{at}experts.gate_up_proj", (moe.num_experts, 2 * inner, hidden)
        yield f"{at}experts.down_proj", (moe.num_experts, hidden, inner)
    else:
        for index in range(moe.num_experts):
            yield from _dense(f"{at}experts.{index}.", hidden, inner, bias=False)
    if moe.shared_intermediate_size is not None:
        yield from _dense(f"{at}shared_expert.", hidden, moe.shared_intermediate_size, bias=False)
        yield f"{at}shared_expert_gate.weight", (1, hidden)


def _dense(at: str, hidden: int, inner: int, *, bias: bool) -> Iterator[tuple[str, Shape]]:
    for part, shape in (("gate", (inner, hidden)), ("up", (inner, hidden)), ("down", (hidden, inner))):
        yield f"{at}{part}_proj.weight", shape
        if bias:
            yield f"{at}{part}_proj.bias", shape[:1]


def check(source: TensorSource, expected: Mapping[str, Shape], names: TensorNames, *, tied: bool) -> None:
    """Refuses missing, wrong-shaped and surplus tensors. Errors: CheckpointError naming tensor and file."""
    shapes = source.shapes
    missing = [name for name in expected if name not in shapes]
    if missing:
        raise CheckpointError(f"{source.place}: tensor {missing[0]} is missing{_and_more(missing)}")
    for name, shape in expected.items():
        if shapes[name] != shape:
            raise CheckpointError(
                f"{source.file_of(name)}: tensor {name} has shape {list(shapes[name])}, expected {list(shape)}"
            )
    surplus = [name for name in shapes if name not in expected and _is_ours(name, names, tied)]
    if surplus:
        raise CheckpointError(
            f"{source.file_of(surplus[0])}: tensor {surplus[0]} has no place in this architecture{_and_more(surplus)}"
        )


def _is_ours(name: str, names: TensorNames, tied: bool) -> bool:
    """Whether a tensor could only belong to this decoder. A plain checkpoint holds nothing else at all."""
    scope = "" if names.body == "model." else names.body
    is_derived = name.endswith("rotary_emb.inv_freq") or (tied and name == names.head)
    return name.startswith(scope) and not is_derived and not name.startswith(names.others)


def _and_more(names: list[str]) -> str:
    return f" (and {len(names) - 1} more)" if len(names) > 1 else ""
