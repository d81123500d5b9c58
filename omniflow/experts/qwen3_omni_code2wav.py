"""Qwen3-Omni's vocoder: frames of codes to samples by a causal transformer and causal convolutions, chunk by chunk.

Every layer carries what it needs of the past from chunk to chunk, so chunks of any size give the samples of the whole
clip, and nothing is computed twice. A transposed convolution with stride s and kernel 2 s gives s samples only once the
next input is there; through all strides that adds up (8, 5, 4, 3: 555 samples), and these are the only samples that a
clip lacks at its end. A decoder without memory lacks them at every border of chunks.
Reference: `Qwen3OmniMoeCode2Wav` of transformers (modeling_qwen3_omni_moe.py), whole clip.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from omniflow.experts.lean import Checkpoint
from omniflow.experts.qwen2_5_omni_tensors import Json, expect, fill, number, numbers, rope_theta
from omniflow.experts.qwen3_omni_config import read_section
from omniflow.roles import DecoderRows, DecoderState

SECTION, PREFIX = "code2wav_config", "code2wav."
DILATIONS = (1, 3, 9)


@dataclass(frozen=True, slots=True, kw_only=True)
class VocoderConfig:
    """window: frames that a frame attends to, itself included; ratios: of the first stage; rates: of the second."""

    codes: int
    groups: int
    width: int
    hidden: int
    layers: int
    heads: int
    kv_heads: int
    head_dim: int
    window: int
    eps: float
    theta: float
    ratios: tuple[int, ...]
    rates: tuple[int, ...]
    channels: int

    @staticmethod
    def parse(section: Mapping[str, Json]) -> VocoderConfig:
        """Errors: CheckpointError naming the field."""
        expect(section, "hidden_act", "silu")
        expect(section, "attention_bias", False)
        width, heads = number(section, "hidden_size"), number(section, "num_attention_heads")
        return VocoderConfig(
            codes=number(section, "codebook_size"),
            groups=number(section, "num_quantizers"),
            width=width,
            hidden=number(section, "intermediate_size"),
            layers=number(section, "num_hidden_layers"),
            heads=heads,
            kv_heads=number(section, "num_key_value_heads"),
            head_dim=section.get("head_dim") or width // heads,
            window=number(section, "sliding_window"),
            eps=float(section.get("rms_norm_eps", 1e-5)),
            theta=rope_theta(section),
            ratios=numbers(section, "upsampling_ratios"),
            rates=numbers(section, "upsample_rates"),
            channels=number(section, "decoder_dim"),
        )


class Memory:
    """What the layers of one batch of rows carry over, keyed by layer: tensors whose first axis is the row."""

    def __init__(self, past: Mapping[nn.Module, Tensor]) -> None:
        self.past = past
        self.next: dict[nn.Module, Tensor] = {}


class CausalConv(nn.Module):
    """A convolution over now and the past. [B, C, n] to [B, C', n]."""

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
    """Stretches [B, C, n] to [B, C', s * n]; with a kernel of 2 s the first chunk of a clip lacks s."""

    def __init__(self, inner: int, outer: int, kernel: int, stride: int) -> None:
        super().__init__()
        self.conv = nn.ConvTranspose1d(inner, outer, kernel, stride=stride)
        self.excess = kernel - stride

    def forward(self, x: Tensor, memory: Memory) -> Tensor:
        if self.excess:
            past = memory.past.get(self)
            memory.next[self] = x[..., -1:]
            x = x if past is None else torch.cat([past, x], dim=-1)
        out: Tensor = self.conv(x)
        return out[..., self.excess : out.shape[-1] - self.excess]


class ConvNeXt(nn.Module):
    """A causal depthwise convolution and a two-layer mixer around a residual."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.dwconv = CausalConv(width, width, 7, groups=width)
        self.norm = nn.LayerNorm(width, eps=1e-6)
        self.pwconv1, self.pwconv2 = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
        self.gamma = nn.Parameter(torch.empty(width))

    def forward(self, x: Tensor, memory: Memory) -> Tensor:
        mixed = self.pwconv2(F.gelu(self.pwconv1(self.norm(self.dwconv(x, memory).transpose(1, 2)))))
        return x + (self.gamma * mixed).transpose(1, 2)


class SnakeBeta(nn.Module):
    """x + sin(a x)² / b, with a and b kept as logarithms, per channel."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.alpha, self.beta = nn.Parameter(torch.empty(channels)), nn.Parameter(torch.empty(channels))

    def forward(self, x: Tensor) -> Tensor:
        alpha, beta = self.alpha.exp()[:, None], self.beta.exp()[:, None]
        return x + (1.0 / (beta + 1e-9)) * torch.sin(x * alpha).pow(2)


class ResidualUnit(nn.Module):
    """A dilated causal convolution and a pointwise one."""

    def __init__(self, channels: int, dilation: int) -> None:
        super().__init__()
        self.act1, self.act2 = SnakeBeta(channels), SnakeBeta(channels)
        self.conv1 = CausalConv(channels, channels, 7, dilation=dilation)
        self.conv2 = CausalConv(channels, channels, 1)

    def forward(self, x: Tensor, memory: Memory) -> Tensor:
        return self.conv2(self.act2(self.conv1(self.act1(x), memory)), memory) + x


class DecoderBlock(nn.Module):
    """One step of stretching."""

    def __init__(self, inner: int, outer: int, rate: int) -> None:
        super().__init__()
        units = [ResidualUnit(outer, dilation) for dilation in DILATIONS]
        self.block = nn.ModuleList([SnakeBeta(inner), CausalTranspose(inner, outer, 2 * rate, rate), *units])

    def forward(self, x: Tensor, memory: Memory) -> Tensor:
        x = self.block[1](self.block[0](x), memory)
        for unit in list(self.block)[2:]:
            x = unit(x, memory)
        return x


class Attention(nn.Module):
    """Attention to the frames of a sliding window, with rotary positions."""

    def __init__(self, config: VocoderConfig) -> None:
        super().__init__()
        self.config = config
        query, key = config.heads * config.head_dim, config.kv_heads * config.head_dim
        self.q_proj = nn.Linear(config.width, query, bias=False)
        self.k_proj = nn.Linear(config.width, key, bias=False)
        self.v_proj = nn.Linear(config.width, key, bias=False)
        self.o_proj = nn.Linear(query, config.width, bias=False)

    def forward(self, x: Tensor, angles: Tensor, mask: Tensor, memory: Memory) -> Tensor:
        config = self.config
        query, key, value = (
            proj(x).unflatten(-1, (-1, config.head_dim)).transpose(1, 2)
            for proj in (self.q_proj, self.k_proj, self.v_proj)
        )
        query, key = _rotate(query, angles), _rotate(key, angles)
        past = memory.past.get(self)
        pair = torch.stack([key, value], dim=1)
        pair = pair if past is None else torch.cat([past, pair], dim=3)
        memory.next[self] = pair[:, :, :, max(pair.shape[3] - config.window + 1, 0) :]
        key, value = pair.unbind(1)
        out = F.scaled_dot_product_attention(
            query, key, value, attn_mask=mask, enable_gqa=config.heads != config.kv_heads
        )
        attended: Tensor = self.o_proj(out.transpose(1, 2).flatten(2))
        return attended


class Mlp(nn.Module):
    """down(silu(gate(x)) * up(x))."""

    def __init__(self, width: int, hidden: int) -> None:
        super().__init__()
        self.gate_proj = nn.Linear(width, hidden, bias=False)
        self.up_proj = nn.Linear(width, hidden, bias=False)
        self.down_proj = nn.Linear(hidden, width, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.down_proj(F.silu(self.gate_proj(x)) * self.up_proj(x))
        return out


class LayerScale(nn.Module):
    """A factor per channel."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.empty(width))

    def forward(self, x: Tensor) -> Tensor:
        return self.scale * x


class Layer(nn.Module):
    """Pre-norm attention and feed-forward part, scaled per channel."""

    def __init__(self, config: VocoderConfig) -> None:
        super().__init__()
        self.self_attn = Attention(config)
        self.mlp = Mlp(config.width, config.hidden)
        self.input_layernorm = nn.RMSNorm(config.width, eps=config.eps)
        self.post_attention_layernorm = nn.RMSNorm(config.width, eps=config.eps)
        self.self_attn_layer_scale, self.mlp_layer_scale = LayerScale(config.width), LayerScale(config.width)

    def forward(self, x: Tensor, angles: Tensor, mask: Tensor, memory: Memory) -> Tensor:
        x = x + self.self_attn_layer_scale(self.self_attn(self.input_layernorm(x), angles, mask, memory))
        out: Tensor = x + self.mlp_layer_scale(self.mlp(self.post_attention_layernorm(x)))
        return out


class Transformer(nn.Module):
    """The layers over frames."""

    def __init__(self, config: VocoderConfig) -> None:
        super().__init__()
        self.layers = nn.ModuleList(Layer(config) for _ in range(config.layers))
        self.norm = nn.RMSNorm(config.width, eps=config.eps)


@dataclass(slots=True, kw_only=True, eq=False)
class Clip(DecoderState):
    """One clip: what each layer carries, without the row axis."""

    past: dict[nn.Module, Tensor] = field(default_factory=dict)


class Code2Wav(nn.Module):
    """Role StreamDecoder. `codes` int64 [n, groups] -> 24 kHz samples."""

    def __init__(self, config: VocoderConfig) -> None:
        super().__init__()
        self.config = config
        self.code_embedding = nn.Embedding(config.codes * config.groups, config.width)
        self.pre_transformer = Transformer(config)
        self.upsample = nn.ModuleList(
            nn.ModuleList([CausalTranspose(config.width, config.width, ratio, ratio), ConvNeXt(config.width)])
            for ratio in config.ratios
        )
        sizes = [config.channels // 2**i for i in range(len(config.rates) + 1)]
        blocks = [DecoderBlock(a, b, rate) for a, b, rate in zip(sizes[:-1], sizes[1:], config.rates, strict=True)]
        first, last = CausalConv(config.width, config.channels, 7), CausalConv(sizes[-1], 1, 7)
        self.decoder = nn.ModuleList([first, *blocks, SnakeBeta(sizes[-1]), last])

    def open(self, *, generator: torch.Generator) -> Clip:
        """A clip before its first frame; there is no noise to draw."""
        del generator
        return Clip()

    @torch.inference_mode()
    def decode(self, rows: Sequence[DecoderRows]) -> list[Tensor]:
        """One forward for all clips that begin, one for all that go on. Errors: ValueError for codes out of range."""
        samples: dict[int, Tensor] = {}
        begun = [row.state.num_frames > 0 for row in rows]
        for is_begun in (False, True):
            mine = [i for i, row in enumerate(rows) if begun[i] == is_begun and row.new]
            if mine:
                samples.update(zip(mine, self._decode([rows[i] for i in mine]), strict=True))
        empty = self.code_embedding.weight.new_zeros(0, dtype=torch.float32)
        return [samples.get(i, empty) for i in range(len(rows))]

    def _decode(self, rows: Sequence[DecoderRows]) -> list[Tensor]:
        clips = [_clip(row) for row in rows]
        codes = torch.stack([self._checked(row) for row in rows])
        longest = max(min(clip.num_frames, self.config.window - 1) for clip in clips)
        memory = Memory(_gather(clips, longest))
        x = self._attend(codes, clips, longest, memory).transpose(1, 2)
        for stretch, mix in self.upsample:
            x = mix(stretch(x, memory), memory)
        for block in self.decoder:
            x = block(x) if isinstance(block, SnakeBeta) else block(x, memory)
        for i, (row, clip) in enumerate(zip(rows, clips, strict=True)):
            clip.num_frames += row.new
            kept = min(clip.num_frames, self.config.window - 1)
            clip.past = {module: _own(module, tensor[i], kept) for module, tensor in memory.next.items()}
        return list(x[:, 0].clamp(-1, 1).float())

    def _checked(self, row: DecoderRows) -> Tensor:
        codes = row.frames["codes"][row.left : row.left + row.new]
        low, high = int(codes.min()), int(codes.max())
        if codes.shape[1:] != (self.config.groups,) or not 0 <= low <= high < self.config.codes:
            wanted = f"{self.config.groups} codes below {self.config.codes}"
            raise ValueError(f"a frame has {wanted}, got {list(codes.shape)} up to {high}")
        return codes.to(self.code_embedding.weight.device)

    def _attend(self, codes: Tensor, clips: Sequence[Clip], longest: int, memory: Memory) -> Tensor:
        """[B, n, width] of codes [B, n, groups]."""
        config, device, n = self.config, codes.device, codes.shape[1]
        offsets = torch.arange(config.groups, device=device) * config.codes
        x = self.code_embedding(codes + offsets).mean(2)
        starts = torch.tensor([clip.num_frames for clip in clips], device=device)
        places = starts[:, None] + torch.arange(n, device=device)
        frequencies = 1.0 / config.theta ** (torch.arange(0, config.head_dim, 2, device=device) / config.head_dim)
        angles = places[..., None].float() * frequencies
        seen = starts[:, None] + torch.arange(-longest, n, device=device)  # places of the keys; below zero: none
        distance = places[:, :, None] - seen[:, None]
        mask = (distance >= 0) & (distance < config.window) & (seen >= 0)[:, None]
        for layer in self.pre_transformer.layers:
            x = layer(x, angles, mask[:, None], memory)
        out: Tensor = self.pre_transformer.norm(x)
        return out


def _clip(row: DecoderRows) -> Clip:
    assert isinstance(row.state, Clip)
    return row.state


def _gather(clips: Sequence[Clip], longest: int) -> dict[nn.Module, Tensor]:
    """What all clips carry, row by row; keys and values are filled up with zeros, which no row sees, to the longest."""
    return {
        module: torch.stack(
            [
                F.pad(clip.past[module], (0, 0, longest - clip.past[module].shape[2], 0))
                if isinstance(module, Attention)
                else clip.past[module]
                for clip in clips
            ]
        )
        for module in clips[0].past
    }


def _own(module: nn.Module, tensor: Tensor, kept: int) -> Tensor:
    """A row's part of what a layer carries, without the filling."""
    own = tensor[:, :, tensor.shape[2] - kept :] if isinstance(module, Attention) else tensor
    return own.clone()


def _rotate(x: Tensor, angles: Tensor) -> Tensor:
    """Rotary positions in the two-halves layout. x: [B, heads, n, D]; angles: [B, n, D / 2]."""
    cos, sin = angles.cos()[:, None].to(x.dtype), angles.sin()[:, None].to(x.dtype)
    first, second = x.chunk(2, dim=-1)
    return torch.cat([first * cos - second * sin, second * cos + first * sin], dim=-1)


def load_code2wav(folder: Path, *, dtype: torch.dtype, device: torch.device) -> Code2Wav:
    """The vocoder of a checkpoint. Errors: CheckpointError."""
    with torch.device("meta"):
        vocoder = Code2Wav(VocoderConfig.parse(read_section(folder, SECTION)))
    return fill(vocoder, Checkpoint(folder), PREFIX, dtype=dtype, device=device, others=("code_offset",))
