"""Qwen2.5-Omni's vocoder: mel frames to samples with anti-aliased periodic activations (BigVGAN, Lee et al. 2023).

Reference: `Qwen2_5OmniToken2WavBigVGANModel` of transformers (modeling_qwen2_5_omni.py). Everything is a convolution of
finite reach, so a chunk with enough context decodes to what the whole clip would.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import groupby
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from omniflow.experts.lean import Checkpoint, CheckpointError
from omniflow.experts.qwen2_5_omni_tensors import Json, fill, number, numbers, read_section
from omniflow.roles import DecoderRows, DecoderState

PREFIX = "token2wav.code2wav_bigvgan_model."
RATIO, TAPS = 2, 12  # of the filters around each activation
QUIETEST_DB, REFERENCE_DB = -115.0, 20.0
TINY = 1e-9


@dataclass(frozen=True, slots=True, kw_only=True)
class VocoderConfig:
    """rates and kernels: of the upsampling layers; blocks: (kernel, dilations) of the residual blocks behind each."""

    mels: int
    width: int
    rates: tuple[int, ...]
    kernels: tuple[int, ...]
    blocks: tuple[tuple[int, tuple[int, ...]], ...]

    @property
    def hop(self) -> int:
        """Samples per frame."""
        return math.prod(self.rates)

    @staticmethod
    def parse(section: Mapping[str, Json]) -> VocoderConfig:
        """Errors: CheckpointError naming the field."""
        kernels, dilations = numbers(section, "resblock_kernel_sizes"), section.get("resblock_dilation_sizes")
        if not isinstance(dilations, list) or len(dilations) != len(kernels) or any(len(d) != 3 for d in dilations):
            raise CheckpointError(
                f"config.json: resblock_dilation_sizes must be 3 numbers per kernel, not {dilations!r}"
            )
        return VocoderConfig(
            mels=number(section, "mel_dim"),
            width=number(section, "upsample_initial_channel"),
            rates=numbers(section, "upsample_rates"),
            kernels=numbers(section, "upsample_kernel_sizes"),
            blocks=tuple((kernel, tuple(own)) for kernel, own in zip(kernels, dilations, strict=True)),
        )


class Snake(nn.Module):
    """x + sin²(a x) / b with a and b per channel, in log scale."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.alpha, self.beta = nn.Parameter(torch.zeros(channels)), nn.Parameter(torch.zeros(channels))

    def forward(self, x: Tensor) -> Tensor:
        alpha, beta = self.alpha.exp()[:, None], self.beta.exp()[:, None]
        return x + (1.0 / (beta + TINY)) * torch.sin(x * alpha).square()


class SmoothSnake(nn.Module):
    """The activation at twice the rate, so that what it folds over is filtered out."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.act = Snake(channels)

    def forward(self, x: Tensor) -> Tensor:
        taps = _low_pass(x.device).to(x.dtype).expand(x.shape[1], 1, -1)
        x = F.pad(x, (TAPS // RATIO - 1, TAPS // RATIO - 1), mode="replicate")
        x = RATIO * F.conv_transpose1d(x, taps, stride=RATIO, groups=x.shape[1])
        edge = (TAPS // RATIO - 1) * RATIO + (TAPS - RATIO) // 2
        x = self.act(x[..., edge:-edge])
        x = F.pad(x, (TAPS // 2 - 1, TAPS // 2), mode="replicate")
        return F.conv1d(x, taps, stride=RATIO, groups=x.shape[1])


@lru_cache(maxsize=8)
def _low_pass(device: torch.device) -> Tensor:
    """float32 [1, 1, TAPS]: a Kaiser-windowed sinc at half the rate, of unit sum."""
    cutoff, transition = 0.5 / RATIO, 4 * 0.6 / RATIO
    attenuation = 2.285 * (TAPS // 2 - 1) * math.pi * transition + 7.95
    beta = 0.1102 * (attenuation - 8.7)  # Kaiser's formula from 50 dB on
    window = torch.kaiser_window(TAPS, beta=beta, periodic=False, dtype=torch.float32)
    taps = 2 * cutoff * window * torch.sinc(2 * cutoff * (torch.arange(-TAPS // 2, TAPS // 2) + 0.5))
    return (taps / taps.sum()).view(1, 1, TAPS).to(device)


class ResidualBlock(nn.Module):
    """Three pairs of convolutions, the first of each pair dilated."""

    def __init__(self, channels: int, kernel: int, dilations: Sequence[int]) -> None:
        super().__init__()
        self.convs1 = nn.ModuleList(_conv(channels, kernel, dilation) for dilation in dilations)
        self.convs2 = nn.ModuleList(_conv(channels, kernel, 1) for _ in dilations)
        self.activations = nn.ModuleList(SmoothSnake(channels) for _ in range(2 * len(dilations)))

    def forward(self, x: Tensor) -> Tensor:
        for index, (first, second) in enumerate(zip(self.convs1, self.convs2, strict=True)):
            before, between = self.activations[2 * index], self.activations[2 * index + 1]
            x = x + second(between(first(before(x))))
        return x


def _conv(channels: int, kernel: int, dilation: int) -> nn.Conv1d:
    return nn.Conv1d(channels, channels, kernel, dilation=dilation, padding=dilation * (kernel - 1) // 2)


class BigVgan(nn.Module):
    """Role StreamDecoder (omniflow.roles). Frames: `mel` [left + new + right, mels], natural logarithm of amplitude."""

    def __init__(self, config: VocoderConfig) -> None:
        super().__init__()
        self.config = config
        widths = [config.width // 2**depth for depth in range(len(config.rates) + 1)]
        self.conv_pre = nn.Conv1d(config.mels, config.width, 7, padding=3)
        self.ups = nn.ModuleList(
            nn.Sequential(nn.ConvTranspose1d(widths[i], widths[i + 1], k, rate, padding=(k - rate) // 2))
            for i, (rate, k) in enumerate(zip(config.rates, config.kernels, strict=True))
        )
        self.resblocks = nn.ModuleList(
            ResidualBlock(width, kernel, dilations) for width in widths[1:] for kernel, dilations in config.blocks
        )
        self.activation_post = SmoothSnake(widths[-1])
        self.conv_post = nn.Conv1d(widths[-1], 1, 7, padding=3, bias=False)

    def open(self, *, generator: torch.Generator) -> DecoderState:
        """Nothing is drawn and nothing is carried over: context comes with the frames."""
        del generator
        return DecoderState()

    @torch.inference_mode()
    def decode(self, rows: Sequence[DecoderRows]) -> list[Tensor]:
        """Float32 samples [new * hop] per row. Rows of one length are one forward: borders are part of the sound."""
        results: dict[int, Tensor] = {}
        order = sorted(range(len(rows)), key=lambda i: len(self._checked(rows[i])))
        for length, group in groupby(order, key=lambda i: len(rows[i].frames["mel"])):
            members = list(group)
            mels = torch.stack([rows[i].frames["mel"] for i in members])
            waves = self(mels) if length else mels.new_zeros(len(members), 0)
            results.update(zip(members, waves, strict=True))
        hop = self.config.hop
        for row in rows:
            row.state.num_frames += row.new
        return [results[i][row.left * hop : (row.left + row.new) * hop] for i, row in enumerate(rows)]

    def _checked(self, row: DecoderRows) -> Tensor:
        mel = row.frames["mel"]
        wanted = (row.left + row.new + row.right, self.config.mels)
        if mel.shape != wanted:
            raise ValueError(f"the vocoder's 'mel' must have shape {list(wanted)}, got {list(mel.shape)}")
        return mel

    def forward(self, mel: Tensor) -> Tensor:
        """[B, F, mels] to float32 [B, F * hop]."""
        x = self.conv_pre(_scaled(mel.to(self.conv_pre.weight)).transpose(1, 2))
        per_stage = len(self.config.blocks)
        for stage, up in enumerate(self.ups):
            x = up(x)
            blocks = self.resblocks[stage * per_stage : (stage + 1) * per_stage]
            x = torch.stack([block(x) for block in blocks]).sum(0) / per_stage if per_stage > 1 else blocks[0](x)
        samples: Tensor = self.conv_post(self.activation_post(x))[:, 0]
        return samples.clamp(-1.0, 1.0).float()


def _scaled(mel: Tensor) -> Tensor:
    """Log amplitude to decibels over 115 dB, as -1 to 1."""
    quietest = math.exp(QUIETEST_DB / 20.0 * math.log(10))
    decibels = 20 * torch.log10(mel.exp().clamp(min=quietest)) - REFERENCE_DB
    return (2 * ((decibels - QUIETEST_DB) / -QUIETEST_DB) - 1).clamp(-1.0, 1.0)


def load_bigvgan(folder: Path, *, dtype: torch.dtype, device: torch.device) -> BigVgan:
    """The vocoder of a checkpoint. Errors: CheckpointError."""
    config = VocoderConfig.parse(read_section(folder, "token2wav_config.bigvgan_config"))
    with torch.device("meta"):
        vocoder = BigVgan(config)
    return fill(vocoder, Checkpoint(folder), PREFIX, dtype=dtype, device=device)
