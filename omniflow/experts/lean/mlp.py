"""The feed-forward part of a layer: dense, or a mixture of experts with an optional shared expert."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from omniflow.experts.lean.config import MoeConfig
from omniflow.experts.lean.linear import Quantize, prepare
from omniflow.experts.lean.weights import DenseWeights, MoeWeights


class DenseMlp:
    """down(silu(gate(x)) * up(x))."""

    def __init__(self, weights: DenseWeights, *, quantize: Quantize = "none") -> None:
        self._gate_up = prepare(weights.gate_up, weights.gate_up_bias, quantize=quantize)
        self._down = prepare(weights.down, weights.down_bias, quantize=quantize)

    def __call__(self, x: Tensor) -> Tensor:
        """[rows, E] to [rows, E]."""
        return self._down(_gated(self._gate_up(x)))


class MoeMlp:
    """Every token through its `top_k` best experts, weighted by the router's softmax.

    Reference: Qwen3MoeSparseMoeBlock in transformers/models/qwen3_moe/modeling_qwen3_moe.py, with the shared expert
    of Qwen3OmniMoeTalkerTextSparseMoeBlock.
    """

    def __init__(self, config: MoeConfig, weights: MoeWeights) -> None:
        self._config = config
        self._router = weights.router
        self._gate_up = weights.gate_up
        self._down = weights.down
        self._shared = None if weights.shared is None else DenseMlp(weights.shared)
        self._shared_gate = weights.shared_gate

    def __call__(self, x: Tensor) -> Tensor:
        """[rows, E] to [rows, E]."""
        shares, chosen = self._route(x)
        out = self._by_expert(x, shares, chosen) if x.device.type == "cpu" else self._grouped(x, shares, chosen)
        if self._shared is not None and self._shared_gate is not None:
            out = out + torch.sigmoid(F.linear(x, self._shared_gate)) * self._shared(x)
        return out

    def _route(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """The shares and the indices of the chosen experts, both [T, top_k]."""
        probabilities = F.linear(x, self._router).softmax(dim=-1, dtype=torch.float32)
        shares, chosen = probabilities.topk(self._config.top_k, dim=-1)
        if self._config.normalise_top_k:
            shares = shares / shares.sum(dim=-1, keepdim=True)
        return shares.to(x.dtype), chosen

    def _by_expert(self, x: Tensor, shares: Tensor, chosen: Tensor) -> Tensor:
        """One pair of matrix products for every expert that was chosen; on a CPU the counts are free to read."""
        out = torch.zeros_like(x)
        order = chosen.flatten().argsort(stable=True)
        counts = torch.bincount(chosen.flatten(), minlength=self._config.num_experts).tolist()
        tokens, weights = order // self._config.top_k, shares.flatten()[order][:, None]
        at = 0
        for expert, count in enumerate(counts):
            if count == 0:
                continue
            mine = tokens[at : at + count]
            inner = _gated(F.linear(x[mine], self._gate_up[expert]))
            out.index_add_(0, mine, F.linear(inner, self._down[expert]) * weights[at : at + count])
            at += count
        return out

    def _grouped(self, x: Tensor, shares: Tensor, chosen: Tensor) -> Tensor:
        """The same without asking the device for counts: bfloat16 as grouped products, others as all experts."""
        if x.dtype != torch.bfloat16:
            return self._all_experts(x, shares, chosen)
        top_k, order = self._config.top_k, chosen.flatten().argsort(stable=True)
        experts = torch.arange(self._config.num_experts, device=x.device)
        ends = torch.searchsorted(chosen.flatten()[order], experts, right=True).to(torch.int32)
        inner = _gated(F.grouped_mm(x[order // top_k], self._gate_up.transpose(1, 2), offs=ends))
        out = F.grouped_mm(inner, self._down.transpose(1, 2), offs=ends) * shares.flatten()[order][:, None]
        return torch.zeros_like(x).index_add_(0, order // top_k, out)

    def _all_experts(self, x: Tensor, shares: Tensor, chosen: Tensor) -> Tensor:
        dense = torch.zeros(x.shape[0], self._config.num_experts, dtype=x.dtype, device=x.device)
        dense.scatter_(1, chosen, shares)
        inner = _gated(torch.matmul(x, self._gate_up.transpose(1, 2)))  # [X, T, F]
        return torch.einsum("xte,tx->te", torch.matmul(inner, self._down.transpose(1, 2)), dense)


def _gated(gate_up: Tensor) -> Tensor:
    gate, up = gate_up.chunk(2, dim=-1)
    return F.silu(gate) * up
