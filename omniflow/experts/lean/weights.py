"""A decoder's weights as the forward uses them: read from a source and fused, layer by layer."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from omniflow.experts.lean.checkpoint import TensorSource
from omniflow.experts.lean.config import LeanConfig
from omniflow.experts.lean.layout import TensorNames, check, expected_shapes


@dataclass(frozen=True, slots=True, kw_only=True)
class DenseWeights:
    """Gated feed-forward part. gate_up: [2 * F, E], gate rows first; down: [E, F]."""

    gate_up: Tensor
    gate_up_bias: Tensor | None
    down: Tensor
    down_bias: Tensor | None


@dataclass(frozen=True, slots=True, kw_only=True)
class MoeWeights:
    """router: [X, E]; gate_up: [X, 2 * F, E]; down: [X, E, F]; shared_gate: [1, E]."""

    router: Tensor
    gate_up: Tensor
    down: Tensor
    shared: DenseWeights | None
    shared_gate: Tensor | None


@dataclass(frozen=True, slots=True, kw_only=True)
class LayerWeights:
    """qkv: [(heads + 2 * kv_heads) * D, E], query rows first; output: [E, heads * D]; norms: [E] or [D]."""

    attention_norm: Tensor
    qkv: Tensor
    qkv_bias: Tensor | None
    query_norm: Tensor | None
    key_norm: Tensor | None
    output: Tensor
    output_bias: Tensor | None
    mlp_norm: Tensor
    mlp: DenseWeights | MoeWeights


class WeightReader:
    """Reads a decoder's tensors part by part. Making it checks names and shapes of all of them, reading none.

    Errors: CheckpointError naming the tensor and the file.
    """

    def __init__(
        self, source: TensorSource, config: LeanConfig, names: TensorNames, *, dtype: torch.dtype, device: torch.device
    ) -> None:
        self._source = source
        self._config = config
        self._names = names
        self._dtype = dtype
        self._device = device
        self._fused_experts = any(name.endswith("mlp.experts.gate_up_proj") for name in source.shapes)
        expected = expected_shapes(config, names, fused_experts=self._fused_experts)
        check(source, expected, names, tied=config.tied_head)

    def embed(self) -> Tensor | None:
        """The input embedding [V, E], if the decoder has one."""
        return None if self._names.embed is None else self._read(self._names.embed)

    def head(self, embed: Tensor | None) -> Tensor | None:
        """[V, E]; the embedding itself when the two are tied."""
        if self._config.tied_head and embed is not None:
            return embed
        return None if self._names.head is None else self._read(self._names.head)

    def norm(self) -> Tensor:
        """The final norm [E]."""
        return self._read(f"{self._names.body}norm.weight")

    def layer(self, index: int) -> LayerWeights:
        """One layer's weights, fused."""
        config, at = self._config, f"{self._names.body}layers.{index}."
        projections = [f"{at}self_attn.{letter}_proj" for letter in "qkv"]
        return LayerWeights(
            attention_norm=self._read(f"{at}input_layernorm.weight"),
            qkv=self._stack(f"{name}.weight" for name in projections),
            qkv_bias=self._stack(f"{name}.bias" for name in projections) if config.qkv_bias else None,
            query_norm=self._read(f"{at}self_attn.q_norm.weight") if config.qk_norm else None,
            key_norm=self._read(f"{at}self_attn.k_norm.weight") if config.qk_norm else None,
            output=self._read(f"{at}self_attn.o_proj.weight"),
            output_bias=self._read(f"{at}self_attn.o_proj.bias") if config.output_bias else None,
            mlp_norm=self._read(f"{at}post_attention_layernorm.weight"),
            mlp=self._moe(f"{at}mlp.") if config.is_moe_layer(index) else self._dense(f"{at}mlp.", config.mlp_bias),
        )

    def _dense(self, at: str, bias: bool) -> DenseWeights:
        return DenseWeights(
            gate_up=self._stack(f"{at}{part}_proj.weight" for part in ("gate", "up")),
            gate_up_bias=self._stack(f"{at}{part}_proj.bias" for part in ("gate", "up")) if bias else None,
            down=self._read(f"{at}down_proj.weight"),
            down_bias=self._read(f"{at}down_proj.bias") if bias else None,
        )

    def _moe(self, at: str) -> MoeWeights:
        moe = self._config.moe
        assert moe is not None
        if self._fused_experts:
            gate_up, down = self._read(f"{at}experts.gate_up_proj"), self._read(f"{at}experts.down_proj")
        else:
            each = [self._dense(f"{at}experts.{i}.", False) for i in range(moe.num_experts)]
            gate_up, down = torch.stack([e.gate_up for e in each]), torch.stack([e.down for e in each])
        has_shared = moe.shared_intermediate_size is not None
        return MoeWeights(
            router=self._read(f"{at}gate.weight"),
            gate_up=gate_up,
            down=down,
            shared=self._dense(f"{at}shared_expert.", False) if has_shared else None,
            shared_gate=self._read(f"{at}shared_expert_gate.weight") if has_shared else None,
        )

    def _read(self, name: str) -> Tensor:
        return self._source.read(name).to(device=self._device, dtype=self._dtype).contiguous()

    def _stack(self, names: Iterator[str]) -> Tensor:
        return torch.cat([self._read(name) for name in names])
