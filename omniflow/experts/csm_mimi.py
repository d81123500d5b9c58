"""Mimi's decoder, CSM's vocoder: frames of codes to samples, strictly causal, chunk by chunk.

Reference: `MimiModel.decode` of transformers (modeling_mimi.py).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import ceil, prod
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
from omniflow.experts.csm_text import Json, read_part
from omniflow.experts.lean import Checkpoint, CheckpointError
from omniflow.experts.qwen2_5_omni_tensors import expect, fill, number, numbers, rope_theta

SECTION, PREFIX = "codec_config", "codec_model."
OTHERS = (  # what only an encoder reads
    "encoder.",
    "encoder_transformer.",
    "downsample.",
    "quantizer.semantic_residual_vector_quantizer.input_proj.",
    "quantizer.acoustic_residual_vector_quantizer.input_proj.",
)
EPSILON = 1e-5


@dataclass(frozen=True, slots=True, kw_only=True)
class MimiConfig:
    """stretch: steps of the transformer per frame; window: steps that a step attends to; grown: dilation per layer."""

    codes: int
    groups: int
    semantic: int
    code_width: int
    quantized: int
    width: int
    hidden: int
    layers: int
    heads: int
    kv_heads: int
    head_dim: int
    window: int
    eps: float
    theta: float
    stretch: int
    stretch_groups: int
    ratios: tuple[int, ...]
    filters: int
    kernel: int
    last_kernel: int
    residual_kernel: int
    residual_layers: int
    grown: int
    compress: int

    @staticmethod
    def parse(section: Mapping[str, Json]) -> MimiConfig:
        """Errors: CheckpointError naming the field."""
        for name, known in (
            ("model_type", "mimi"), ("hidden_act", "gelu"), ("attention_bias", False), ("use_causal_conv", True),
            ("trim_right_ratio", 1.0), ("use_conv_shortcut", False), ("pad_mode", "constant"), ("audio_channels", 1),
        ):  # fmt: skip
            expect(section, name, known)
        width, heads, ratios = number(section, "hidden_size"), number(section, "num_attention_heads"), _ratios(section)
        return MimiConfig(
            codes=number(section, "codebook_size"),
            groups=number(section, "num_quantizers"),
            semantic=number(section, "num_semantic_quantizers"),
            code_width=section.get("codebook_dim") or width,
            quantized=number(section, "vector_quantization_hidden_dimension"),
            width=width,
            hidden=number(section, "intermediate_size"),
            layers=number(section, "num_hidden_layers"),
            heads=heads,
            kv_heads=number(section, "num_key_value_heads"),
            head_dim=section.get("head_dim") or width // heads,
            window=number(section, "sliding_window"),
            eps=float(section.get("norm_eps", 1e-5)),
            theta=rope_theta(section),
            stretch=_stretch(section, ratios),
            stretch_groups=number(section, "upsample_groups"),
            ratios=ratios,
            filters=number(section, "num_filters"),
            kernel=number(section, "kernel_size"),
            last_kernel=number(section, "last_kernel_size"),
            residual_kernel=number(section, "residual_kernel_size"),
            residual_layers=number(section, "num_residual_layers"),
            grown=number(section, "dilation_growth_rate"),
            compress=number(section, "compress"),
        )


def _ratios(section: Mapping[str, Json]) -> tuple[int, ...]:
    return numbers(section, "upsampling_ratios") if section.get("upsampling_ratios") else (8, 6, 5, 4)


def _stretch(section: Mapping[str, Json], ratios: tuple[int, ...]) -> int:
    """Steps per frame: told by the frame rate where the checkpoint has one, two otherwise."""
    rate = section.get("frame_rate", section.get("_frame_rate"))
    steps = ceil(number(section, "sampling_rate") / prod(ratios))
    stretch = 2 if rate is None else int(steps / rate)
    if stretch < 2:
        raise CheckpointError(f"config.json: frame_rate {rate} of the codec is not supported, only below {steps}")
    return stretch


class Codebook(nn.Module):
    """The vectors of a group's codes, kept as sums and counts."""

    def __init__(self, codes: int, width: int) -> None:
        super().__init__()
        self.register_buffer("initialized", torch.empty(1))
        self.register_buffer("cluster_usage", torch.empty(codes))
        self.register_buffer("embed_sum", torch.empty(codes, width))

    def forward(self, codes: Tensor) -> Tensor:
        usage, total = self.get_buffer("cluster_usage"), self.get_buffer("embed_sum")
        return F.embedding(codes, total / usage.clamp(min=EPSILON)[:, None])


class Group(nn.Module):
    """Holds a codebook under its published name."""

    def __init__(self, codes: int, width: int) -> None:
        super().__init__()
        self.codebook = Codebook(codes, width)

    def forward(self, codes: Tensor) -> Tensor:
        vectors: Tensor = self.codebook(codes)
        return vectors


class Quantizer(nn.Module):
    """Adds up the vectors of some groups' codes. [B, n, groups] to [B, width, n]."""

    def __init__(self, config: MimiConfig, groups: int) -> None:
        super().__init__()
        self.layers = nn.ModuleList(Group(config.codes, config.code_width) for _ in range(groups))
        is_same = config.quantized == config.width
        self.output_proj = None if is_same else nn.Conv1d(config.quantized, config.width, 1, bias=False)

    def forward(self, codes: Tensor) -> Tensor:
        vectors = [layer(column) for layer, column in zip(self.layers, codes.unbind(-1), strict=True)]
        total = torch.stack(vectors).sum(0).transpose(1, 2)
        return total if self.output_proj is None else self.output_proj(total)


class SplitQuantizer(nn.Module):
    """Semantic and acoustic groups."""

    def __init__(self, config: MimiConfig) -> None:
        super().__init__()
        self.semantic = config.semantic
        self.semantic_residual_vector_quantizer = Quantizer(config, config.semantic)
        self.acoustic_residual_vector_quantizer = Quantizer(config, config.groups - config.semantic)

    def forward(self, codes: Tensor) -> Tensor:
        first, rest = codes[..., : self.semantic], codes[..., self.semantic :]
        out: Tensor = self.semantic_residual_vector_quantizer(first) + self.acoustic_residual_vector_quantizer(rest)
        return out


class Mlp(nn.Module):
    """Two layers around a GELU."""

    def __init__(self, width: int, hidden: int) -> None:
        super().__init__()
        self.fc1, self.fc2 = nn.Linear(width, hidden, bias=False), nn.Linear(hidden, width, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.fc2(F.gelu(self.fc1(x)))
        return out


class Layer(nn.Module):
    """Pre-norm attention and feed-forward part, scaled per channel."""

    def __init__(self, config: MimiConfig) -> None:
        super().__init__()
        self.self_attn = WindowAttention(
            config.width, heads=config.heads, kv_heads=config.kv_heads, head_dim=config.head_dim, window=config.window
        )
        self.mlp = Mlp(config.width, config.hidden)
        self.input_layernorm = nn.LayerNorm(config.width, eps=config.eps)
        self.post_attention_layernorm = nn.LayerNorm(config.width, eps=config.eps)
        self.self_attn_layer_scale, self.mlp_layer_scale = LayerScale(config.width), LayerScale(config.width)

    def forward(self, x: Tensor, window: Window, memory: Memory) -> Tensor:
        x = x + self.self_attn_layer_scale(self.self_attn(self.input_layernorm(x), window, memory))
        out: Tensor = x + self.mlp_layer_scale(self.mlp(self.post_attention_layernorm(x)))
        return out


class Transformer(nn.Module):
    """The layers over steps."""

    def __init__(self, config: MimiConfig) -> None:
        super().__init__()
        self.layers = nn.ModuleList(Layer(config) for _ in range(config.layers))


class ResidualBlock(nn.Module):
    """A dilated causal convolution and a pointwise one, through fewer channels."""

    def __init__(self, config: MimiConfig, channels: int, dilation: int) -> None:
        super().__init__()
        inner = channels // config.compress
        wide = CausalConv(channels, inner, config.residual_kernel, dilation=dilation)
        self.block = nn.ModuleList([nn.ELU(), wide, nn.ELU(), CausalConv(inner, channels, 1)])

    def forward(self, x: Tensor, memory: Memory) -> Tensor:
        y = self.block[1](self.block[0](x), memory)
        out: Tensor = x + self.block[3](self.block[2](y), memory)
        return out


class Convolutions(nn.Module):
    """Steps to samples: a convolution, then stretching and residual blocks per ratio, then a convolution."""

    def __init__(self, config: MimiConfig) -> None:
        super().__init__()
        channels = config.filters * 2 ** len(config.ratios)
        layers: list[nn.Module] = [CausalConv(config.width, channels, config.kernel)]
        for ratio in config.ratios:
            channels //= 2
            layers += [nn.ELU(), CausalTranspose(2 * channels, channels, 2 * ratio, ratio, waits=False)]
            layers += [ResidualBlock(config, channels, config.grown**i) for i in range(config.residual_layers)]
        layers += [nn.ELU(), CausalConv(channels, 1, config.last_kernel)]
        self.layers = nn.ModuleList(layers)

    def forward(self, x: Tensor, memory: Memory) -> Tensor:
        for layer in self.layers:
            x = layer(x) if isinstance(layer, nn.ELU) else layer(x, memory)
        return x


class Mimi(ChunkDecoder):
    """Role StreamDecoder. `codes` int64 [n, groups] -> samples, as many per frame as all ratios make."""

    def __init__(self, config: MimiConfig) -> None:
        super().__init__(num_codes=config.codes, groups=config.groups)
        self.config = config
        self.quantizer = SplitQuantizer(config)
        self.upsample = CausalTranspose(
            config.width, config.width, 2 * config.stretch, config.stretch, waits=False,
            groups=config.stretch_groups, bias=False,
        )  # fmt: skip
        self.decoder_transformer = Transformer(config)
        self.decoder = Convolutions(config)

    def samples(self, codes: Tensor, memory: Memory) -> Tensor:
        """[B, S] of codes int64 [B, n, groups]."""
        config = self.config
        x = self.upsample(self.quantizer(codes), memory).transpose(1, 2)
        starts = [start * config.stretch for start in memory.starts]
        window = Window.at(
            starts, x.shape[1], size=config.window, head_dim=config.head_dim, theta=config.theta, device=x.device
        )
        for layer in self.decoder_transformer.layers:
            x = layer(x, window, memory)
        out: Tensor = self.decoder(x.transpose(1, 2), memory)
        return out[:, 0]


def load_mimi(folder: Path, *, dtype: torch.dtype, device: torch.device) -> Mimi:
    """The codec's decoder. Errors: CheckpointError."""
    with torch.device("meta"):
        mimi = Mimi(MimiConfig.parse(read_part(folder, SECTION)))
    return fill(mimi, Checkpoint(folder), PREFIX, dtype=dtype, device=device, others=OTHERS)
