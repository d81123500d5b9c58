"""Attention of a batch of sequences, by whichever way of torch's is the faster one for their length on the device."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

# Scores of one request that are worth being made as a whole: fewer are one cheap call, more would leave the cache.
_WHOLE_FROM, _WHOLE_TO = 64 * 1024, 1024 * 1024


def attend(q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None = None) -> Tensor:
    """[B, S, heads * D] of queries [B, S, heads, D], keys and values [B, T, heads, D]."""
    num_scores = q.shape[1] * q.shape[2] * k.shape[1]
    q, k, v = (part.transpose(1, 2) for part in (q, k, v))
    if mask is None and q.device.type == "cpu" and q.dtype == torch.float32 and _WHOLE_FROM <= num_scores <= _WHOLE_TO:
        mixed = torch.stack([_whole(*row) for row in zip(q, k, v, strict=True)])
    else:
        mixed = F.scaled_dot_product_attention(q, k, v, attn_mask=mask)
    return mixed.transpose(1, 2).flatten(2)


def _whole(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """One request's, [heads, S, D]: torch's fused attention on a CPU gains little from a second thread, this all of it.

    Requests go one by one, for a product of matrices may round otherwise where there are more of them.
    """
    scores = torch.baddbmm(q.new_empty(1, 1, 1), q, k.transpose(1, 2), beta=0, alpha=q.shape[-1] ** -0.5)
    return torch.bmm(scores.softmax(-1), v)
