"""The layers of a decoder in plain torch, for any device: flat rows in, hidden states and logits out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import torch
import torch.nn.functional as F
from torch import Tensor

from omniflow.experts.lean.attention import attend, rotate
from omniflow.experts.lean.batch import FlatBatch, FlatResult, Span, slots_of
from omniflow.experts.lean.config import LeanConfig
from omniflow.experts.lean.linear import Quantize, prepare
from omniflow.experts.lean.mlp import DenseMlp, MoeMlp
from omniflow.experts.lean.weights import DenseWeights, LayerWeights
from omniflow.kv import KvArena


class Stack(Protocol):
    """What computes a flat batch. `add_layer` is called once per layer, in order, before the first `run`.

    is_exact: whether a row's bits are the same whatever the other rows are and in however many steps they come.
    reads_tables: whether it takes a flat batch's embeddings and rotations out of tables itself.
    """

    is_exact: bool
    reads_tables: bool

    def add_layer(self, weights: LayerWeights) -> None:
        """Takes the next layer's weights."""

    def finish(self, *, norm: Tensor, head: Tensor | None) -> None:
        """The final norm [E] and the vocabulary head [V, E], if the decoder has one."""

    def run(self, batch: FlatBatch, arena: KvArena) -> FlatResult:
        """One forward; writes the new keys and values into the arena."""


class TorchStack:
    """Layers as fused linear calls with torch's own attention. int8 holds all matrices, int4 those of dense layers."""

    is_exact = False
    reads_tables = False

    def __init__(self, config: LeanConfig, *, quantize: Quantize = "none") -> None:
        self._config = config
        self._quantize: Quantize = quantize
        self._layers: list[_Layer] = []

    def add_layer(self, weights: LayerWeights) -> None:
        """Takes the next layer's weights."""
        self._layers.append(_Layer(self._config, weights, quantize=self._quantize))

    def finish(self, *, norm: Tensor, head: Tensor | None) -> None:
        """The final norm [E] and the vocabulary head [V, E], if there is one."""
        self._norm = norm
        of_head: Quantize = "int8" if self._quantize == "int8" else "none"
        self._head = None if head is None else prepare(head, None, quantize=of_head)

    def run(self, batch: FlatBatch, arena: KvArena) -> FlatResult:
        """One forward; writes the new keys and values into the arena."""
        x, taps = batch.embeds, {}
        slots = slots_of(batch.spans).to(x.device)
        cos, sin = batch.cos.to(x.dtype)[:, None], batch.sin.to(x.dtype)[:, None]
        for index, layer in enumerate(self._layers):
            if index in batch.tap_layers:
                taps[index] = x
            x = layer(x, cos, sin, batch.spans, slots, arena.keys[index], arena.values[index])
            if index < len(batch.additions):
                x = x + batch.additions[index]
        return self._read_out(x, batch, tuple(taps[index] for index in batch.tap_layers))

    def _read_out(self, x: Tensor, batch: FlatBatch, taps: tuple[Tensor, ...]) -> FlatResult:
        wanted = list(batch.logit_rows) if self._head is not None else []
        everything = batch.wants_hidden or len(wanted) == x.shape[0]
        hidden = self._normed(x) if everything else None
        if not wanted or self._head is None:
            return FlatResult(logits=None, hidden=hidden, taps=taps)
        if len(wanted) == x.shape[0] and hidden is not None:
            last = hidden
        else:
            rows = torch.tensor(wanted, device=x.device)
            last = self._normed(x[rows]) if hidden is None else hidden[rows]
        return FlatResult(logits=self._head(last).float(), hidden=hidden, taps=taps)

    def _normed(self, x: Tensor) -> Tensor:
        return F.rms_norm(x, self._norm.shape, self._norm, self._config.norm_eps)


class _Layer:
    """Attention and feed-forward part, each with a norm before it and a residual around it."""

    def __init__(self, config: LeanConfig, weights: LayerWeights, *, quantize: Quantize) -> None:
        self._config = config
        self._weights = weights.attention_norm, weights.mlp_norm, weights.query_norm, weights.key_norm
        self._qkv = prepare(weights.qkv, weights.qkv_bias, quantize=quantize)
        self._output = prepare(weights.output, weights.output_bias, quantize=quantize)
        if isinstance(weights.mlp, DenseWeights):
            self._mlp: DenseMlp | MoeMlp = DenseMlp(weights.mlp, quantize=quantize)
        else:
            assert config.moe is not None
            self._mlp = MoeMlp(config.moe, weights.mlp)

    def __call__(
        self,
        x: Tensor,
        cos: Tensor,
        sin: Tensor,
        spans: Sequence[Span],
        slots: Tensor,
        keys: Tensor,
        values: Tensor,
    ) -> Tensor:
        config = self._config
        attention_norm, mlp_norm, query_norm, key_norm = self._weights
        qkv = self._qkv(F.rms_norm(x, attention_norm.shape, attention_norm, config.norm_eps))
        heads = qkv.view(x.shape[0], -1, config.head_dim)
        num_rotated = config.num_heads + config.num_kv_heads
        rotated = heads[:, :num_rotated]
        if query_norm is not None and key_norm is not None:
            query, key = rotated.tensor_split((config.num_heads,), dim=1)
            query = F.rms_norm(query, query_norm.shape, query_norm, config.norm_eps)
            rotated = torch.cat((query, F.rms_norm(key, key_norm.shape, key_norm, config.norm_eps)), dim=1)
        rotated = rotate(rotated, cos, sin)
        query, key = rotated[:, : config.num_heads], rotated[:, config.num_heads :]
        keys.index_copy_(0, slots, key)
        values.index_copy_(0, slots, heads[:, num_rotated:])
        x = x + self._output(attend(query, keys, values, spans))
        return x + self._mlp(F.rms_norm(x, mlp_norm.shape, mlp_norm, config.norm_eps))
