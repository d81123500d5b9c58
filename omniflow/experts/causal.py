"""Layers that work chunk by chunk: each carries what it needs of the past, so chunks of any size give the whole.

A forward runs the rows of several clips at once. What a layer carries between forwards is kept per clip, by layer.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from omniflow.roles import DecoderRows, DecoderState


@dataclass(slots=True, kw_only=True, eq=False)
class Clip(DecoderState):
    """One clip: what each layer carries, without the row axis."""

    past: dict[nn.Module, Tensor] = field(default_factory=dict)


class Memory:
    """What the layers of one forward carry over: `past` comes in, `next` goes out, both with the row axis first.

    Keys and values of clips with a shorter past are filled up in front with zeros, which no row sees.
    """

    def __init__(self, clips: Sequence[Clip]) -> None:
        self.clips = clips
        self.starts = [clip.num_frames for clip in clips]
        self.past: Mapping[nn.Module, Tensor] = {module: self._stack(module) for module in clips[0].past}
        self.next: dict[nn.Module, Tensor] = {}

    def _stack(self, module: nn.Module) -> Tensor:
        rows = [clip.past[module] for clip in self.clips]
        if isinstance(module, WindowAttention):
            longest = max(row.shape[2] for row in rows)
            rows = [F.pad(row, (0, 0, longest - row.shape[2], 0)) for row in rows]
        return torch.stack(rows)

    def hand_over(self, num_frames: int) -> None:
        """Gives every clip its own part for the next forward."""
        for i, clip in enumerate(self.clips):
            clip.num_frames += num_frames
            clip.past = {module: self._own(module, tensor, i) for module, tensor in self.next.items()}

    def _own(self, module: nn.Module, tensor: Tensor, row: int) -> Tensor:
        own = tensor[row]
        if isinstance(module, WindowAttention):
            before, padded = self.clips[row].past.get(module), self.past.get(module)
            filled = 0 if before is None or padded is None else padded.shape[3] - before.shape[2]
            own = own[:, :, max(filled, own.shape[2] - module.window + 1) :]
        return own.clone()


class CausalConv(nn.Module):
    """A convolution over now and the past, zeros before the clip. [B, C, n] to [B, C', n]."""

    def __init__(self, inner: int, outer: int, kernel: int, *, dilation: int = 1, groups: int = 1) -> None:
        super().__init__()
        self.conv = nn.Conv1d(inner, outer, kernel, dilation=dilation, groups=groups)
        self.reach = (kernel - 1) * dilation

    def forward(self, x: Tensor, memory: Memory) -> Tensor:
        if self.reach:
            past = memory.past.get(self)
            x = F.pad(x, (self.reach, 0)) if past is None else torch.cat([past, x], dim=-1)
            memory.next[self] = x[..., -self.reach :]
        out: Tensor = self.conv(x)
        return out


class CausalTranspose(nn.Module):
    """Stretches [B, C, n] to [B, C', s * n] with a kernel of at most two strides s, each output from two inputs.

    `waits`: an output is of its input and the one behind it, so the first chunk lacks s and a clip ends s early;
    otherwise of its input and the one before.
    """

    def __init__(
        self, inner: int, outer: int, kernel: int, stride: int, *, waits: bool, groups: int = 1, bias: bool = True
    ) -> None:
        super().__init__()
        self.conv = nn.ConvTranspose1d(inner, outer, kernel, stride=stride, groups=groups, bias=bias)
        self.excess = kernel - stride
        self.stride = stride
        self.waits = waits

    def forward(self, x: Tensor, memory: Memory) -> Tensor:
        past = memory.past.get(self)
        if self.excess:
            memory.next[self] = x[..., -1:]
            x = x if past is None else torch.cat([past, x], dim=-1)
        out: Tensor = self.conv(x)
        start = 0 if past is None and not self.waits else self.stride if past is not None else self.excess
        return out[..., start : out.shape[-1] - self.excess]


@dataclass(frozen=True, slots=True, kw_only=True)
class Window:
    """Where the queries of a forward are and what they see. angles: [B, n, D / 2]; mask: bool [B, 1, n, past + n]."""

    angles: Tensor
    mask: Tensor

    @staticmethod
    def at(
        starts: Sequence[int], num_new: int, *, size: int, head_dim: int, theta: float, device: torch.device
    ) -> Window:
        """`num_new` steps behind `starts` steps; each sees itself and `size` - 1 before it."""
        longest = max(min(start, size - 1) for start in starts)
        begins = torch.tensor(starts, device=device)[:, None]
        places = begins + torch.arange(num_new, device=device)
        seen = begins + torch.arange(-longest, num_new, device=device)  # places of the keys; below zero: none
        frequencies = 1.0 / theta ** (torch.arange(0, head_dim, 2, device=device) / head_dim)
        distance = places[:, :, None] - seen[:, None]
        mask = (distance >= 0) & (distance < size) & (seen >= 0)[:, None]
        return Window(angles=places[..., None].float() * frequencies, mask=mask[:, None])


class WindowAttention(nn.Module):
    """Attention to the steps of a sliding window, with rotary positions. [B, n, width] to the same."""

    def __init__(self, width: int, *, heads: int, kv_heads: int, head_dim: int, window: int) -> None:
        super().__init__()
        self.q_proj = nn.Linear(width, heads * head_dim, bias=False)
        self.k_proj = nn.Linear(width, kv_heads * head_dim, bias=False)
        self.v_proj = nn.Linear(width, kv_heads * head_dim, bias=False)
        self.o_proj = nn.Linear(heads * head_dim, width, bias=False)
        self.head_dim = head_dim
        self.window = window

    def forward(self, x: Tensor, window: Window, memory: Memory) -> Tensor:
        query, key, value = (
            proj(x).unflatten(-1, (-1, self.head_dim)).transpose(1, 2)
            for proj in (self.q_proj, self.k_proj, self.v_proj)
        )
        query, key = _rotate(query, window.angles), _rotate(key, window.angles)
        past, pair = memory.past.get(self), torch.stack([key, value], dim=1)
        pair = pair if past is None else torch.cat([past, pair], dim=3)
        memory.next[self] = pair
        key, value = pair.unbind(1)
        is_grouped = key.shape[1] != query.shape[1]
        out = F.scaled_dot_product_attention(query, key, value, attn_mask=window.mask, enable_gqa=is_grouped)
        attended: Tensor = self.o_proj(out.transpose(1, 2).flatten(2))
        return attended


def _rotate(x: Tensor, angles: Tensor) -> Tensor:
    """Rotary positions in the two-halves layout. x: [B, heads, n, D]; angles: [B, n, D / 2]."""
    cos, sin = angles.cos()[:, None].to(x.dtype), angles.sin()[:, None].to(x.dtype)
    first, second = x.chunk(2, dim=-1)
    return torch.cat([first * cos - second * sin, second * cos + first * sin], dim=-1)


class LayerScale(nn.Module):
    """A factor per channel."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.empty(width))

    def forward(self, x: Tensor) -> Tensor:
        return self.scale * x


class ChunkDecoder(nn.Module):
    """Role StreamDecoder for frames of codes: `codes` int64 [n, groups], each below `num_codes`. Subclasses compute."""

    def __init__(self, *, num_codes: int, groups: int) -> None:
        super().__init__()
        self.num_codes = num_codes
        self.groups = groups

    def samples(self, codes: Tensor, memory: Memory) -> Tensor:
        """[B, S] of codes int64 [B, n, groups]."""
        raise NotImplementedError

    def open(self, *, generator: torch.Generator) -> Clip:
        """A clip before its first frame; there is no noise to draw."""
        del generator
        return Clip()

    @torch.inference_mode()
    def decode(self, rows: Sequence[DecoderRows]) -> list[Tensor]:
        """One forward for all clips that begin, one for all that go on. Errors: ValueError for codes out of range."""
        found: dict[int, Tensor] = {}
        begun = [row.state.num_frames > 0 for row in rows]
        for is_begun in (False, True):
            mine = [i for i, row in enumerate(rows) if begun[i] == is_begun and row.new]
            if mine:
                found.update(zip(mine, self._decode([rows[i] for i in mine]), strict=True))
        return [found.get(i, torch.zeros(0)) for i in range(len(rows))]

    def _decode(self, rows: Sequence[DecoderRows]) -> list[Tensor]:
        device = next(self.parameters()).device
        codes = torch.stack([self._checked(row) for row in rows]).to(device)
        memory = Memory([_clip(row) for row in rows])
        samples = self.samples(codes, memory)
        memory.hand_over(codes.shape[1])
        return list(samples.float())

    def _checked(self, row: DecoderRows) -> Tensor:
        codes = row.frames["codes"][row.left : row.left + row.new]
        low, high = int(codes.min()), int(codes.max())
        if codes.shape[1:] != (self.groups,) or not 0 <= low <= high < self.num_codes:
            wanted = f"{self.groups} codes below {self.num_codes}"
            raise ValueError(f"a frame has {wanted}, got {list(codes.shape)} from {low} to {high}")
        return codes


def _clip(row: DecoderRows) -> Clip:
    assert isinstance(row.state, Clip)
    return row.state
