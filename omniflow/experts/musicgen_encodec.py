"""EnCodec's decoder, MusicGen's vocoder: frames of codes to samples, chunk by chunk, causal or not.

Reference: `EncodecModel.decode` of transformers (modeling_encodec.py). Where a layer looks ahead it holds back what
still depends on what is to come, so chunks of any size give the whole, and the last one what is left.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from math import ceil
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from omniflow.experts.causal import Clip, Memory
from omniflow.experts.hf_rows import by_shape
from omniflow.experts.lean import Checkpoint, CheckpointError
from omniflow.experts.musicgen_config import AUDIO, read_section
from omniflow.experts.qwen2_5_omni_tensors import expect, fill, number, numbers
from omniflow.experts.weight_norm import Folded
from omniflow.roles import DecoderRows, DecoderState

Json = Any
OTHERS = ("encoder.",)  # what only an encoder reads
UNREAD = (".codebook.inited", ".codebook.cluster_size", ".codebook.embed_avg")  # what only training reads
MOST_GROUPS = 32  # of any published EnCodec
PADDINGS = ("reflect", "constant")


@dataclass(frozen=True, slots=True, kw_only=True)
class EncodecConfig:
    """grown: dilation per residual layer; cut: the share of a transposed convolution's excess that is cut behind."""

    codes: int
    groups: int
    width: int
    filters: int
    ratios: tuple[int, ...]
    kernel: int
    last_kernel: int
    residual_kernel: int
    residual_layers: int
    grown: int
    compress: int
    recurrent: int
    is_causal: bool
    cut: float
    padding: str
    has_shortcut: bool

    @staticmethod
    def parse(section: Mapping[str, Json], groups: int) -> EncodecConfig:
        """Errors: CheckpointError naming the field."""
        for name, known in (
            ("audio_channels", 1), ("norm_type", "weight_norm"), ("normalize", False), ("chunk_length_s", None),
        ):  # fmt: skip
            expect(section, name, known)
        width, padding = number(section, "hidden_size"), section.get("pad_mode", "reflect")
        if section.get("codebook_dim") not in (None, width):
            expect(section, "codebook_dim", width)
        if padding not in PADDINGS:
            raise CheckpointError(f"config.json: pad_mode = {padding!r} of encodec is not supported, only {PADDINGS}")
        is_causal = bool(section.get("use_causal_conv", True))
        return EncodecConfig(
            codes=number(section, "codebook_size"),
            groups=groups,
            width=width,
            filters=number(section, "num_filters"),
            ratios=numbers(section, "upsampling_ratios"),
            kernel=number(section, "kernel_size"),
            last_kernel=number(section, "last_kernel_size"),
            residual_kernel=number(section, "residual_kernel_size"),
            residual_layers=number(section, "num_residual_layers"),
            grown=number(section, "dilation_growth_rate"),
            compress=number(section, "compress"),
            recurrent=number(section, "num_lstm_layers"),
            is_causal=is_causal,
            cut=float(section.get("trim_right_ratio", 1.0)) if is_causal else 0.5,
            padding=padding,
            has_shortcut=bool(section.get("use_conv_shortcut", True)),
        )


class Stream(Memory):
    """What the layers of one forward carry over; `ends`: nothing comes behind it."""

    def __init__(self, clips: Sequence[Clip], *, ends: bool) -> None:
        super().__init__(clips)
        self.ends = ends


class Conv(nn.Module):
    """A convolution of [B, C, n] to [B, C', n], whose outputs leave once all that they depend on is there."""

    def __init__(self, config: EncodecConfig, inner: int, outer: int, kernel: int, *, dilation: int = 1) -> None:
        super().__init__()
        self.conv = nn.Conv1d(inner, outer, kernel, dilation=dilation)
        self.reach = (kernel - 1) * dilation
        self.after = 0 if config.is_causal else self.reach // 2
        self.before = self.reach - self.after
        self.mirrors = config.padding == "reflect"

    def forward(self, x: Tensor, stream: Stream) -> Tensor:
        past, waiting = stream.past.get(self), stream.past.get(self.conv)  # waiting: too little to mirror it
        before = past if past is not None else waiting
        x = x if before is None else torch.cat([before, x], dim=-1)
        if past is None and not stream.ends and self.mirrors and x.shape[-1] <= self.before:
            stream.next[self.conv] = x
            return self._run(x[..., :0])
        x = self._padded(x, 0 if past is not None else self.before, self.after if stream.ends else 0)
        if self.reach:
            stream.next[self] = x[..., -self.reach :]
        return self._run(x)

    def _padded(self, x: Tensor, before: int, after: int) -> Tensor:
        """What is too short to be mirrored gets silence behind it first, as in the reference."""
        if not self.mirrors:
            return F.pad(x, (before, after))
        missing = max(0, max(before, after) - x.shape[-1] + 1)
        mirrored = F.pad(F.pad(x, (0, missing)), (before, after), mode="reflect")
        return mirrored[..., : mirrored.shape[-1] - missing]

    def _run(self, x: Tensor) -> Tensor:
        if x.shape[-1] <= self.reach:
            return x.new_zeros(len(x), self.conv.out_channels, 0)
        out: Tensor = self.conv(x)
        return out


class Transpose(nn.Module):
    """Stretches [B, C, n] to [B, C', s * n] with a kernel of two strides s, each output from two inputs."""

    def __init__(self, config: EncodecConfig, inner: int, outer: int, stride: int) -> None:
        super().__init__()
        self.conv = nn.ConvTranspose1d(inner, outer, 2 * stride, stride)
        self.stride = stride
        self.before = stride - (ceil(stride * config.cut) if config.is_causal else stride // 2)  # cut off in front

    def forward(self, x: Tensor, stream: Stream) -> Tensor:
        past = stream.past.get(self)
        x = x if past is None else torch.cat([past, x], dim=-1)
        if not x.shape[-1]:
            return x.new_zeros(len(x), self.conv.out_channels, 0)
        stream.next[self] = x[..., -1:]
        start = self.before if past is None else self.stride
        stop = x.shape[-1] * self.stride + (self.before if stream.ends else 0)
        out: Tensor = self.conv(x)[..., start:stop]
        return out


class Recurrent(nn.Module):
    """An LSTM over time, added to its input."""

    def __init__(self, config: EncodecConfig, width: int) -> None:
        super().__init__()
        self.lstm = nn.LSTM(width, width, config.recurrent)

    def forward(self, x: Tensor, stream: Stream) -> Tensor:
        past = stream.past.get(self)  # [B, 2, layers, width]
        state = None if past is None else tuple(past.permute(1, 2, 0, 3).contiguous())
        if x.shape[-1]:
            steps = x.permute(2, 0, 1)
            out, state = self.lstm(steps, state)
            x = (out + steps).permute(1, 2, 0)
        if state is not None:
            stream.next[self] = torch.stack(list(state)).permute(2, 0, 1, 3)
        return x


class ResidualBlock(nn.Module):
    """A dilated convolution and a pointwise one, through fewer channels, beside the input or a pointwise one of it."""

    def __init__(self, config: EncodecConfig, channels: int, dilation: int) -> None:
        super().__init__()
        inner = channels // config.compress
        wide = Conv(config, channels, inner, config.residual_kernel, dilation=dilation)
        self.block = nn.ModuleList([nn.ELU(), wide, nn.ELU(), Conv(config, inner, channels, 1)])
        self.shortcut = Conv(config, channels, channels, 1) if config.has_shortcut else None

    def forward(self, x: Tensor, stream: Stream) -> Tensor:
        y = self.block[1](self.block[0](x), stream)
        y = self.block[3](self.block[2](y), stream)
        x = x if self.shortcut is None else self.shortcut(x, stream)
        past = stream.past.get(self)  # what came in before and waits for its other half
        x = x if past is None else torch.cat([past, x], dim=-1)
        stream.next[self] = x[..., y.shape[-1] :]
        out: Tensor = x[..., : y.shape[-1]] + y
        return out


class Layers(nn.Module):
    """Frames to samples: a convolution, an LSTM, stretching and residual blocks per ratio, then a convolution."""

    def __init__(self, config: EncodecConfig) -> None:
        super().__init__()
        channels = config.filters * 2 ** len(config.ratios)
        layers: list[nn.Module] = [Conv(config, config.width, channels, config.kernel), Recurrent(config, channels)]
        for ratio in config.ratios:
            channels //= 2
            layers += [nn.ELU(), Transpose(config, 2 * channels, channels, ratio)]
            layers += [ResidualBlock(config, channels, config.grown**i) for i in range(config.residual_layers)]
        layers += [nn.ELU(), Conv(config, channels, 1, config.last_kernel)]
        self.layers = nn.ModuleList(layers)

    def forward(self, x: Tensor, stream: Stream) -> Tensor:
        for layer in self.layers:
            x = layer(x) if isinstance(layer, nn.ELU) else layer(x, stream)
        return x


class Codebook(nn.Module):
    """The vectors of a codebook's codes."""

    def __init__(self, codes: int, width: int) -> None:
        super().__init__()
        self.register_buffer("embed", torch.empty(codes, width))

    def forward(self, codes: Tensor) -> Tensor:
        return F.embedding(codes, self.get_buffer("embed"))


class Group(nn.Module):
    """Holds a codebook under its published name."""

    def __init__(self, codes: int, width: int) -> None:
        super().__init__()
        self.codebook = Codebook(codes, width)

    def forward(self, codes: Tensor) -> Tensor:
        vectors: Tensor = self.codebook(codes)
        return vectors


class Quantizer(nn.Module):
    """Adds up the vectors of a frame's codes. [B, n, groups] to [B, width, n]."""

    def __init__(self, config: EncodecConfig) -> None:
        super().__init__()
        self.layers = nn.ModuleList(Group(config.codes, config.width) for _ in range(config.groups))

    def forward(self, codes: Tensor) -> Tensor:
        vectors = [layer(column) for layer, column in zip(self.layers, codes.unbind(-1), strict=True)]
        return torch.stack(vectors).sum(0).transpose(1, 2)


@dataclass(slots=True, kw_only=True, eq=False)
class Sides(DecoderState):
    """An item's clips, one per channel."""

    clips: tuple[Clip, ...]


class Encodec(nn.Module):
    """Role StreamDecoder. `codes` int64 [n, channels * groups], each below the codebook's size -> samples.

    The codec has one channel: several are rows of one forward, and their codes alternate within a frame. Samples are
    [S] of one channel, [S, channels] of several.
    """

    def __init__(self, config: EncodecConfig, channels: int) -> None:
        super().__init__()
        self.config = config
        self.channels = channels
        self.quantizer = Quantizer(config)
        self.decoder = Layers(config)

    def open(self, *, generator: torch.Generator) -> Sides:
        """Clips before their first frame; there is no noise to draw."""
        del generator
        return Sides(clips=tuple(Clip() for _ in range(self.channels)))

    @torch.inference_mode()
    def decode(self, rows: Sequence[DecoderRows]) -> list[Tensor]:
        """One forward for all clips that hold back as much. Errors: ValueError for codes out of range."""
        return by_shape(rows, _phase, self._decode)

    def _decode(self, rows: list[DecoderRows]) -> list[Tensor]:
        device, sides = next(self.parameters()).device, [_sides(row) for row in rows]
        codes = torch.stack([self._checked(row) for row in rows]).to(device)
        codes = codes.unflatten(-1, (-1, self.channels)).movedim(-1, 1).flatten(0, 1)  # [rows * channels, n, groups]
        stream = Stream([clip for each in sides for clip in each.clips], ends=rows[0].is_last)
        samples = self.decoder(self.quantizer(codes), stream)[:, 0].float()
        stream.hand_over(codes.shape[1])
        for each in sides:
            each.num_frames += codes.shape[1]
        samples = samples.unflatten(0, (-1, self.channels)).transpose(1, 2)
        return list(samples if self.channels > 1 else samples[..., 0])

    def _checked(self, row: DecoderRows) -> Tensor:
        codes, count = row.frames["codes"][row.left : row.left + row.new], self.channels * self.config.groups
        low, high = (int(codes.min()), int(codes.max())) if len(codes) else (0, 0)
        if codes.shape[1:] != (count,) or not 0 <= low <= high < self.config.codes:
            wanted = f"{count} codes below {self.config.codes}"
            raise ValueError(f"a frame has {wanted}, got {list(codes.shape)} from {low} to {high}")
        return codes


def _sides(row: DecoderRows) -> Sides:
    assert isinstance(row.state, Sides)
    return row.state


def _phase(row: DecoderRows) -> tuple[Hashable, ...]:
    """What clips of one forward have in common: how much is new, and how much each layer holds."""
    held = tuple((id(module), tensor.shape) for module, tensor in _sides(row).clips[0].past.items())
    return row.new, row.is_last, held


def load_encodec(folder: Path, *, dtype: torch.dtype, device: torch.device, channels: int) -> Encodec:
    """The codec's decoder for music of so many channels. Errors: CheckpointError."""
    decoder = read_section(folder, "decoder", "musicgen_decoder")
    expect(decoder, "audio_channels", channels)
    groups = number(decoder, "num_codebooks") // channels
    config = EncodecConfig.parse(read_section(folder, "audio_encoder", "encodec"), groups)
    with torch.device("meta"):
        encodec = Encodec(config, channels)
    source = Folded(Checkpoint(folder), without=UNREAD)
    finer = tuple(f"quantizer.layers.{i}." for i in range(groups, MOST_GROUPS))  # than the decoder writes
    fill(encodec, source, AUDIO, dtype=dtype, device=device, others=(*OTHERS, *finer))
    for module in encodec.modules():
        if isinstance(module, nn.LSTM):
            module.flatten_parameters()  # in one piece, as cuDNN wants them
    return encodec
