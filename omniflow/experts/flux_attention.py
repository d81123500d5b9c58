"""FLUX's attention in fewer passes over memory."""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor

from omniflow.experts.attention import attend
from omniflow.experts.rotary import as_turns, norm_and_turn


class _Heads(NamedTuple):
    """Each [B, S, heads, D]."""

    queries: Tensor
    keys: Tensor
    values: Tensor


class FluxAttention:
    """In place of FluxAttnProcessor, with its arguments (diffusers: models/transformers/transformer_flux.py).

    Rotary angles are cosines and sines [S, D], each twice, side by side; text lies before picture.
    """

    def __call__(
        self,
        attn: Any,
        hidden_states: Tensor,
        encoder_hidden_states: Tensor | None = None,
        attention_mask: Tensor | None = None,
        image_rotary_emb: tuple[Tensor, Tensor] | None = None,
    ) -> Tensor | tuple[Tensor, Tensor]:
        """[B, S, C] of one stream, or of the picture and of the text where they have layers of their own."""
        assert image_rotary_emb is not None
        turns = as_turns(*image_rotary_emb)
        if encoder_hidden_states is None:
            return attend(*_picture_heads(attn, hidden_states, turns), attention_mask)
        length = encoder_hidden_states.shape[1]
        text = _text_heads(attn, encoder_hidden_states, turns[:length])
        picture = _picture_heads(attn, hidden_states, turns[length:])
        both = _Heads(*(torch.cat(pair, dim=1) for pair in zip(text, picture, strict=True)))
        mixed = attend(*both, attention_mask)
        return attn.to_out[0](mixed[:, length:].contiguous()), attn.to_add_out(mixed[:, :length].contiguous())


def _picture_heads(attn: Any, x: Tensor, turns: Tensor) -> _Heads:
    q, k, v = (layer(x).unflatten(-1, (-1, attn.head_dim)) for layer in (attn.to_q, attn.to_k, attn.to_v))
    return _Heads(norm_and_turn(q, attn.norm_q, turns), norm_and_turn(k, attn.norm_k, turns), v)


def _text_heads(attn: Any, x: Tensor, turns: Tensor) -> _Heads:
    layers = (attn.add_q_proj, attn.add_k_proj, attn.add_v_proj)
    q, k, v = (layer(x).unflatten(-1, (-1, attn.head_dim)) for layer in layers)
    return _Heads(norm_and_turn(q, attn.norm_added_q, turns), norm_and_turn(k, attn.norm_added_k, turns), v)
