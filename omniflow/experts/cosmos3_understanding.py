"""The understanding experts of Cosmos 3 as the layers of a lean decoder: the Qwen3 shape, computed as diffusers does.

Its generating experts read the keys and values that are written here. Long rows run one sequence at a time and in the
operations of the original, so that they are equal to it bit for bit; single tokens of many sequences run together.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from omniflow.experts.lean import LeanConfig, RopeConfig
from omniflow.experts.lean.batch import FlatBatch, FlatResult, Span
from omniflow.experts.lean.weights import LayerWeights
from omniflow.kv import KvArena


def text_config(config: Any) -> LeanConfig:
    """The shape of the understanding experts, from the config of a Cosmos3OmniTransformer."""
    return LeanConfig(
        vocab_size=config.vocab_size,
        hidden_size=config.hidden_size,
        intermediate_size=config.intermediate_size,
        num_layers=config.num_hidden_layers,
        num_heads=config.num_attention_heads,
        num_kv_heads=config.num_key_value_heads,
        head_dim=config.head_dim,
        norm_eps=config.rms_norm_eps,
        rope=RopeConfig(
            theta=float(config.rope_theta), mrope_section=tuple(config.rope_axes_dim), mrope_interleaved=True
        ),
        qkv_bias=config.attention_bias,
        output_bias=config.attention_bias,
        qk_norm=config.qk_norm_for_text,
    )


def turn(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """Rotary positions: x [..., heads, D] turned by angles [..., 1, D] whose halves are equal."""
    half = x.shape[-1] // 2
    return x * cos + torch.cat((-x[..., half:], x[..., :half]), dim=-1) * sin


class UnderstandingStack:
    """Role Stack of the lean decoder, over the modules of a Cosmos3OmniTransformer, which keep their weights."""

    is_exact = False
    reads_tables = False

    def __init__(self, model: Any) -> None:
        self._model = model
        config = model.config
        self._heads, self._kv_heads, self._dim = (
            config.num_attention_heads, config.num_key_value_heads, config.head_dim,
        )  # fmt: skip

    def add_layer(self, weights: LayerWeights) -> None:
        """The model has its layers."""
        raise NotImplementedError("the layers belong to the model")

    def finish(self, *, norm: Tensor, head: Tensor | None) -> None:
        """The model has its norm and head."""
        raise NotImplementedError("norm and head belong to the model")

    def run(self, batch: FlatBatch, arena: KvArena) -> FlatResult:
        """One forward; writes the new keys and values into the arena."""
        cos = torch.cat((batch.cos, batch.cos), dim=-1).to(batch.embeds.dtype)[:, None]
        sin = torch.cat((batch.sin, batch.sin), dim=-1).to(batch.embeds.dtype)[:, None]
        out = torch.empty_like(batch.embeds)
        for spans in _blocks(batch.spans):
            rows = _rows(spans, out.device)
            out[rows] = self._layers(batch.embeds[rows], cos[rows], sin[rows], spans, arena)
        hidden = self._model.norm(out)
        logits = None
        if batch.logit_rows:
            logits = self._model.lm_head(hidden[list(batch.logit_rows)]).float()
        return FlatResult(logits=logits, hidden=hidden if batch.wants_hidden else None, taps=())

    def _layers(self, x: Tensor, cos: Tensor, sin: Tensor, spans: Sequence[Span], arena: KvArena) -> Tensor:
        for index, layer in enumerate(self._model.layers):
            attention = layer.self_attn
            normed = layer.input_layernorm(x)
            q = attention.norm_q(attention.to_q(normed).view(-1, self._heads, self._dim))
            k = attention.norm_k(attention.to_k(normed).view(-1, self._kv_heads, self._dim))
            v = attention.to_v(normed).view(-1, self._kv_heads, self._dim)
            q, k = turn(q, cos, sin), turn(k, cos, sin)
            mixed = _attend(q, k, v, spans, arena.keys[index], arena.values[index])
            x = x + attention.to_out(mixed.flatten(-2, -1))
            x = x + layer.mlp(layer.post_attention_layernorm(x))
        return x


def _blocks(spans: Sequence[Span]) -> Iterator[list[Span]]:
    """Spans that are computed together: all single tokens, and each longer one alone."""
    singles = [span for span in spans if span.num_new == 1]
    if singles:
        yield singles
    for span in spans:
        if span.num_new > 1:
            yield [span]


def _rows(spans: Sequence[Span], device: torch.device) -> Tensor:
    return torch.cat([torch.arange(span.row, span.row + span.num_new) for span in spans]).to(device)


def _attend(q: Tensor, k: Tensor, v: Tensor, spans: Sequence[Span], keys: Tensor, values: Tensor) -> Tensor:
    """Attention of each span's rows to its cached tokens and, causally, to themselves; [n, heads, D]."""
    answers, at = [], 0
    for span in spans:
        new = slice(at, at + span.num_new)
        first, last = span.start + span.past, span.start + span.past + span.num_new
        keys[first:last], values[first:last] = k[new], v[new]
        seen = slice(span.start, last)
        mask = None
        if span.past and span.num_new > 1:
            mask = torch.ones(span.num_new, last - span.start, dtype=torch.bool, device=q.device).tril(span.past)
        answer = attention(q[new], keys[seen], values[seen], mask=mask, is_causal=span.num_new > 1 and span.past == 0)
        answers.append(answer)
        at += span.num_new
    return torch.cat(answers) if len(answers) > 1 else answers[0]


def attention(q: Tensor, k: Tensor, v: Tensor, *, mask: Tensor | None = None, is_causal: bool = False) -> Tensor:
    """q [n, heads, D] over k and v [m, kv_heads, D]; [n, heads, D]."""
    mixed = F.scaled_dot_product_attention(
        q.transpose(0, 1)[None],
        k.transpose(0, 1)[None],
        v.transpose(0, 1)[None],
        attn_mask=mask,
        is_causal=is_causal,
        enable_gqa=True,
    )
    return mixed[0].transpose(0, 1)
