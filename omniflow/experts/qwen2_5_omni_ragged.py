"""Attention inside many short sequences of one packed batch, whatever their lengths."""

from __future__ import annotations

from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor


class Segments:
    """Where the sequences of a packed [T, ...] batch lie. Made once per forward and used by all of its layers."""

    def __init__(self, lengths: Sequence[int], *, device: torch.device) -> None:
        self._count, self._longest = len(lengths), max(lengths)
        self._is_even = min(lengths) == self._longest
        mask = torch.arange(self._longest) < torch.tensor(lengths)[:, None]
        self._mask = mask.to(device)  # [S, L]
        self._places = mask.flatten().nonzero()[:, 0].to(device)  # found here, so that no layer waits for the device

    def attend(self, query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        """Full attention inside every sequence. query, key, value: [T, heads, D]; returns [T, heads * D]."""
        wide = [self._spread(x).transpose(1, 2) for x in (query, key, value)]
        mask = None if self._is_even else self._mask[:, None, None]
        out = F.scaled_dot_product_attention(wide[0], wide[1], wide[2], attn_mask=mask).transpose(1, 2).flatten(2)
        return self.pack(out)

    def pack(self, wide: Tensor) -> Tensor:
        """[S, L, ...] as [T, ...], without what no sequence has."""
        flat: Tensor = wide.flatten(0, 1)
        return flat if self._is_even else flat[self._places]

    def _spread(self, x: Tensor) -> Tensor:
        """[T, ...] as [S, L, ...]; what no sequence has is zero."""
        if self._is_even:
            return x.reshape(self._count, self._longest, *x.shape[1:])
        wide = x.new_zeros(self._count * self._longest, *x.shape[1:]).index_copy_(0, self._places, x)
        return wide.view(self._count, self._longest, *x.shape[1:])
