"""Grouped-query attention of a flat batch over extents of the arena, without copying cached keys or values."""

from __future__ import annotations

from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor

from omniflow.experts.lean.batch import Span


def rotate(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """Rotary positions in the two-halves layout. x: [T, heads, D]; cos, sin: [T, 1, D / 2] in x's dtype."""
    first, second = x.chunk(2, dim=-1)
    return torch.cat((first * cos - second * sin, second * cos + first * sin), dim=-1)


def attend(queries: Tensor, keys: Tensor, values: Tensor, spans: Sequence[Span]) -> Tensor:
    """Attention of each span's queries to its own extent, causal among the new tokens.

    queries: [T, heads, D]; keys, values: [tokens, kv_heads, D] with the new tokens already written. Returns
    [T, heads * D].
    """
    num_rows, heads, head_dim = queries.shape
    grouped = queries.view(num_rows, keys.shape[1], -1, head_dim)  # [T, kv_heads, heads per kv head, D]
    parts = [_attend_span(grouped, keys, values, span) for span in spans]
    return (torch.cat(parts) if len(parts) > 1 else parts[0]).view(num_rows, heads * head_dim)


def _attend_span(grouped: Tensor, keys: Tensor, values: Tensor, span: Span) -> Tensor:
    """[n, heads * D] of one span. Key/value heads are the batch axis, so that sharing them needs no repetition."""
    length = span.past + span.num_new
    extent = slice(span.start, span.start + length)
    key, value = keys[extent].transpose(0, 1)[:, None], values[extent].transpose(0, 1)[:, None]
    if span.num_new == 1:  # the heads of a group are the queries: nothing to expand, nothing to mask
        query = grouped[span.row][:, None]
        out = F.scaled_dot_product_attention(query, key, value)
        return out.reshape(1, -1)
    query = grouped[span.row : span.row + span.num_new].permute(1, 2, 0, 3)
    groups = query.shape[1]
    key, value = key.expand(-1, groups, -1, -1), value.expand(-1, groups, -1, -1)
    mask = None if span.past == 0 else _causal_mask(span, query.device)
    out = F.scaled_dot_product_attention(query, key, value, attn_mask=mask, is_causal=mask is None)
    return out.permute(2, 0, 1, 3).reshape(span.num_new, -1)


def _causal_mask(span: Span, device: torch.device) -> Tensor:
    """Mask [n, past + n]: the new token i sees all that is cached and the new tokens up to itself."""
    ones = torch.ones(span.num_new, span.past + span.num_new, dtype=torch.bool, device=device)
    return ones.tril_(span.past)
