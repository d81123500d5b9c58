"""One layer of Qwen2.5-Omni's flow transformer, over frames in blocks, in few calls: it runs dozens of times a window.

Reference: `DiTDecoderLayer` of transformers (modeling_qwen2_5_omni.py).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from omniflow.experts.lean.linear import Linear, prepare, prepare_gelu

NORM_EPS = 1e-6
PARTS = 6  # vectors that modulate a layer: shift, scale and gate of either half


class Window:
    """Which frames see each other: those of their own block, and of `behind` blocks before and `ahead` after it.

    A frame is compared with those that it sees and no others, so that the work grows with the length of a clip and not
    with its square. Padding may see anything, so that it stays finite; nobody sees it.
    """

    def __init__(self, lengths: Sequence[int], block: int, behind: int, ahead: int, *, like: Tensor) -> None:
        num_blocks = -(-max(lengths) // block)
        self.block = block
        seen = torch.arange(num_blocks)[:, None] + torch.arange(-behind, ahead + 1)  # [N, blocks that are seen]
        self.neighbours: Tensor | None = None
        self.mask: Tensor | None = None  # [B * N, 1, 1, frames that are seen], added to scores
        if behind or ahead:
            self.neighbours = seen.clamp(0, num_blocks - 1).flatten().to(like.device)
        if behind or ahead or any(length != num_blocks * block for length in lengths):
            place = (seen[..., None] * block + torch.arange(block)).flatten(1)
            is_there = (place >= 0) & (place < torch.tensor(lengths)[:, None, None])
            is_padding = ~is_there.any(dim=-1, keepdim=True)
            unseen = ~(is_there | is_padding).flatten(0, 1)[:, None, None]
            self.mask = like.new_zeros(unseen.shape).masked_fill_(unseen.to(like.device), -torch.inf)

    def attend(self, qkv: Tensor, heads: int) -> Tensor:
        """[B, T, heads * D] of [B, T, 3 * heads * D] for T whole blocks."""
        batch, length, width = qkv.shape[0], qkv.shape[1], qkv.shape[2] // 3
        query, key, value = qkv.view(-1, self.block, 3, heads, width // heads).permute(2, 0, 3, 1, 4).unbind()
        if self.neighbours is not None:
            blocks = qkv.view(batch, -1, self.block, 3 * width)[..., width:]
            around = blocks.index_select(1, self.neighbours)
            around = around.view(len(query), -1, 2, heads, width // heads)
            key, value = around.permute(2, 0, 3, 1, 4).unbind()
        mixed = F.scaled_dot_product_attention(query, key, value, attn_mask=self.mask)
        return mixed.transpose(1, 2).reshape(batch, length, width)


@dataclass(frozen=True, slots=True, kw_only=True)
class FlowLayer:
    """Attention, whose first head alone has rotary positions, and a feed-forward part, both modulated by time.

    qkv: all three projections; widen: with a tanh-approximated GELU behind it; reach: blocks seen behind and ahead.
    """

    qkv: Linear
    out: Linear
    widen: Linear
    narrow: Linear
    heads: int
    reach: tuple[int, int]

    def __call__(self, x: Tensor, parts: Sequence[Tensor], turns: Tensor, window: Window) -> Tensor:
        """x and what is returned: [B, T, width]; parts: each [width] or [B, 1, width]; turns: [T, 1, D / 2]."""
        shift, scale, gate, shift_ff, scale_ff, gate_ff = parts
        qkv = self.qkv(modulated(x, scale, shift))
        _turn(qkv.view(*x.shape[:2], 3, self.heads, -1, 2)[:, :, :2, 0], turns)
        x = torch.addcmul(x, gate, self.out(window.attend(qkv, self.heads)))
        return torch.addcmul(x, gate_ff, self.narrow(self.widen(modulated(x, scale_ff, shift_ff))))


def modulated(x: Tensor, scale: Tensor, shift: Tensor) -> Tensor:
    """The normed rows of x times a scale, which has the 1 of the reference in it, plus a shift."""
    return torch.addcmul(shift, F.layer_norm(x, x.shape[-1:], eps=NORM_EPS), scale)


def _turn(pairs: Tensor, turns: Tensor) -> None:
    """Turns pairs [..., D / 2, 2] where they lie.

    The reference also puts even channels before odd ones; queries and keys alike, so their products are the same.
    """
    turned = torch.view_as_complex(pairs.float()).mul_(turns)
    if pairs.dtype != torch.float32:
        pairs.copy_(torch.view_as_real(turned))


def layer_shapes(width: int, inner: int, hidden: int) -> Mapping[str, tuple[int, int]]:
    """The matrices of a layer, each with a bias, by name. inner: of all heads."""
    return {
        "attn_norm.linear": (PARTS * width, width),
        **{f"attn.to_{letter}": (inner, width) for letter in "qkv"},
        "attn.to_out.0": (width, inner),
        "ff.ff.0": (hidden, width),
        "ff.ff.3": (width, hidden),
    }


def make_layer(tensors: Mapping[str, Tensor], at: str, *, heads: int, reach: tuple[int, int]) -> FlowLayer:
    """The layer whose tensors' names begin with `at`."""

    def pair(*names: str) -> tuple[Tensor, Tensor]:
        weight, bias = (torch.cat([tensors[f"{at}{name}.{kind}"] for name in names]) for kind in ("weight", "bias"))
        return weight, bias

    return FlowLayer(
        qkv=prepare(*pair("attn.to_q", "attn.to_k", "attn.to_v")),
        out=prepare(*pair("attn.to_out.0")),
        widen=prepare_gelu(*pair("ff.ff.0")),
        narrow=prepare(*pair("ff.ff.3")),
        heads=heads,
        reach=reach,
    )
