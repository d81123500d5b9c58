"""Wan's attention in fewer passes over memory."""

from __future__ import annotations

from typing import Any

from torch import Tensor

from omniflow.experts.attention import attend
from omniflow.experts.rotary import as_turns, norm_and_turn


class WanAttention:
    """In place of WanAttnProcessor, with its arguments (diffusers: models/transformers/transformer_wan.py).

    Rotary angles are cosines and sines [1, S, 1, D], each twice, side by side; attention to a text has none.
    """

    def __call__(
        self,
        attn: Any,
        hidden_states: Tensor,
        encoder_hidden_states: Tensor | None = None,
        attention_mask: Tensor | None = None,
        rotary_emb: tuple[Tensor, Tensor] | None = None,
    ) -> Tensor:
        """[B, S, C] attending to itself or to a text [B, P, C]."""
        seen = hidden_states if encoder_hidden_states is None else encoder_hidden_states
        query, key, value = attn.to_q(hidden_states), attn.to_k(seen), attn.to_v(seen)
        heads = (attn.heads, -1)
        if rotary_emb is None:
            query, key = attn.norm_q(query).unflatten(-1, heads), attn.norm_k(key).unflatten(-1, heads)
        else:
            turns = as_turns(*(part[0, :, 0] for part in rotary_emb))
            query, key = norm_and_turn(query, attn.norm_q, turns), norm_and_turn(key, attn.norm_k, turns)
        out: Tensor = attn.to_out[0](attend(query, key, value.unflatten(-1, heads), attention_mask))
        return out
