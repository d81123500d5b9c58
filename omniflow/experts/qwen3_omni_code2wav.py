"""Qwen3-Omni's vocoder: frames of codes to samples by a causal transformer and causal convolutions, chunk by chunk.

Every layer carries what it needs of the past from chunk to chunk, so chunks of any size give the samples of the whole
clip, and nothing is computed twice. A transposed convolution with stride s and kernel 2 s gives s samples only once the
next input is there; through all strides that adds up (8, 5, 4, 3: 555 samples), and these are the only samples that a
clip lacks at its end. A decoder without memory lacks them at every border of chunks.
Reference: `Qwen3OmniMoeCode2Wav` of transformers (modeling_qwen3_omni_moe.py), whole clip.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from omniflow.experts.causal import (
    CausalConv,
    CausalTranspose,
    ChunkDecoder,
    LayerScale,
    Memory,
    Window,
    WindowAttention,
)
from omniflow.experts.lean import Checkpoint
from omniflow.experts.qwen2_5_omni_tensors import Json, expect, fill, number, numbers, rope_theta
from omniflow.experts.qwen3_omni_config import read_section

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
        out: Tensor = x + (self.gamma * mixed).transpose(1, 2)
        return out


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
        out: Tensor = self.conv2(self.act2(self.conv1(self.act1(x), memory)), memory) + x
        return out


class DecoderBlock(nn.Module):
    """One step of stretching."""

    def __init__(self, inner: int, outer: int, rate: int) -> None:
        super().__init__()
        units = [ResidualUnit(outer, dilation) for dilation in DILATIONS]
        self.block = nn.ModuleList(
            [SnakeBeta(inner), CausalTranspose(inner, outer, 2 * rate, rate, waits=True), *units]
        )

    def forward(self, x: Tensor, memory: Memory) -> Tensor:
        x = self.block[1](self.block[0](x), memory)
        for unit in list(self.block)[2:]:
            x = unit(x, memory)
        return x


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


class Layer(nn.Module):
    """Pre-norm attention and feed-forward part, scaled per channel."""

    def __init__(self, config: VocoderConfig) -> None:
        super().__init__()
        self.self_attn = WindowAttention(
            config.width, heads=config.heads, kv_heads=config.kv_heads, head_dim=config.head_dim, window=config.window
        )
        self.mlp = Mlp(config.width, config.hidden)
        self.input_layernorm = nn.RMSNorm(config.width, eps=config.eps)
        self.post_attention_layernorm = nn.RMSNorm(config.width, eps=config.eps)
        self.self_attn_layer_scale, self.mlp_layer_scale = LayerScale(config.width), LayerScale(config.width)

    def forward(self, x: Tensor, window: Window, memory: Memory) -> Tensor:
        x = x + self.self_attn_layer_scale(self.self_attn(self.input_layernorm(x), window, memory))
        out: Tensor = x + self.mlp_layer_scale(self.mlp(self.post_attention_layernorm(x)))
        return out


class Transformer(nn.Module):
    """The layers over frames."""

    def __init__(self, config: VocoderConfig) -> None:
        super().__init__()
        self.layers = nn.ModuleList(Layer(config) for _ in range(config.layers))
        self.norm = nn.RMSNorm(config.width, eps=config.eps)


class Code2Wav(ChunkDecoder):
    """Role StreamDecoder. `codes` int64 [n, groups] -> 24 kHz samples."""

    def __init__(self, config: VocoderConfig) -> None:
        super().__init__(num_codes=config.codes, groups=config.groups)
        self.config = config
        self.code_embedding = nn.Embedding(config.codes * config.groups, config.width)
        self.pre_transformer = Transformer(config)
        self.upsample = nn.ModuleList(
            nn.ModuleList(
                [CausalTranspose(config.width, config.width, ratio, ratio, waits=True), ConvNeXt(config.width)]
            )
            for ratio in config.ratios
        )
        sizes = [config.channels // 2**i for i in range(len(config.rates) + 1)]
        blocks = [DecoderBlock(a, b, rate) for a, b, rate in zip(sizes[:-1], sizes[1:], config.rates, strict=True)]
        first, last = CausalConv(config.width, config.channels, 7), CausalConv(sizes[-1], 1, 7)
        self.decoder = nn.ModuleList([first, *blocks, SnakeBeta(sizes[-1]), last])

    def samples(self, codes: Tensor, memory: Memory) -> Tensor:
        """[B, S] of codes int64 [B, n, groups]; the first chunk of a clip lacks what the strides hold back."""
        x = self._attend(codes, memory).transpose(1, 2)
        for stage in self.upsample:
            for layer in stage.children():
                x = layer(x, memory)
        for block in self.decoder:
            x = block(x) if isinstance(block, SnakeBeta) else block(x, memory)
        return x[:, 0].clamp(-1, 1)

    def _attend(self, codes: Tensor, memory: Memory) -> Tensor:
        """[B, n, width] of codes [B, n, groups]."""
        config = self.config
        x = self.code_embedding(codes + torch.arange(config.groups, device=codes.device) * config.codes).mean(2)
        window = Window.at(
            memory.starts, x.shape[1], size=config.window, head_dim=config.head_dim, theta=config.theta, device=x.device
        )
        for layer in self.pre_transformer.layers:
            x = layer(x, window, memory)
        out: Tensor = self.pre_transformer.norm(x)
        return out


def load_code2wav(folder: Path, *, dtype: torch.dtype, device: torch.device) -> Code2Wav:
    """The vocoder of a checkpoint. Errors: CheckpointError."""
    with torch.device("meta"):
        vocoder = Code2Wav(VocoderConfig.parse(read_section(folder, SECTION)))
    return fill(vocoder, Checkpoint(folder), PREFIX, dtype=dtype, device=device, others=("code_offset",))
