"""Qwen2.5-Omni's speaker encoder: a reference mel spectrogram to one vector (ECAPA-TDNN, Desplanques et al. 2020).

Reference: `ECAPA_TimeDelayNet` of transformers (modeling_qwen2_5_omni.py), which runs it in every denoise call; its
answer depends on the voice alone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from omniflow.experts.lean import Checkpoint, CheckpointError
from omniflow.experts.qwen2_5_omni_tensors import Json, fill, number, numbers, read_section

PREFIX = "token2wav.code2wav_dit_model.input_embed.spk_encoder."
LEAST_VARIANCE = 1e-12


@dataclass(frozen=True, slots=True, kw_only=True)
class SpeakerConfig:
    """channels, kernels and dilations: of the first block, the middle ones and the aggregation."""

    mels: int
    output: int
    channels: tuple[int, ...]
    kernels: tuple[int, ...]
    dilations: tuple[int, ...]
    attention: int
    scale: int
    squeeze: int

    @staticmethod
    def parse(section: Mapping[str, Json]) -> SpeakerConfig:
        """Errors: CheckpointError naming the field."""
        lists = [numbers(section, name) for name in ("enc_channels", "enc_kernel_sizes", "enc_dilations")]
        if len({len(part) for part in lists}) != 1 or len(lists[0]) < 3:
            raise CheckpointError(
                "config.json: enc_channels, enc_kernel_sizes and enc_dilations must be of one length, 3 or more"
            )
        return SpeakerConfig(
            mels=number(section, "mel_dim"),
            output=number(section, "enc_dim"),
            channels=lists[0],
            kernels=lists[1],
            dilations=lists[2],
            attention=number(section, "enc_attention_channels"),
            scale=number(section, "enc_res2net_scale"),
            squeeze=number(section, "enc_se_channels"),
        )


def _conv(inputs: int, outputs: int, kernel: int = 1, dilation: int = 1) -> nn.Conv1d:
    return nn.Conv1d(inputs, outputs, kernel, dilation=dilation, padding="same", padding_mode="reflect")


class TimeDelay(nn.Module):
    """A dilated convolution and a ReLU."""

    def __init__(self, inputs: int, outputs: int, kernel: int = 1, dilation: int = 1) -> None:
        super().__init__()
        self.conv = _conv(inputs, outputs, kernel, dilation)

    def forward(self, x: Tensor) -> Tensor:
        return F.relu(self.conv(x))


class Res2Net(nn.Module):
    """Channel groups in a chain: each sees its own channels and what the group before gave."""

    def __init__(self, channels: int, scale: int, kernel: int, dilation: int) -> None:
        super().__init__()
        width = channels // scale
        self.blocks = nn.ModuleList(TimeDelay(width, width, kernel, dilation) for _ in range(scale - 1))

    def forward(self, x: Tensor) -> Tensor:
        first, *groups = x.chunk(len(self.blocks) + 1, dim=1)
        out = [first]
        for index, (group, block) in enumerate(zip(groups, self.blocks, strict=True)):
            out.append(block(group if index == 0 else group + out[-1]))
        return torch.cat(out, dim=1)


class SqueezeExcitation(nn.Module):
    """Scales channels by what they are on average."""

    def __init__(self, channels: int, squeeze: int) -> None:
        super().__init__()
        self.conv1, self.conv2 = _conv(channels, squeeze), _conv(squeeze, channels)

    def forward(self, x: Tensor) -> Tensor:
        scale: Tensor = self.conv2(F.relu(self.conv1(x.mean(dim=2, keepdim=True)))).sigmoid()
        return x * scale


class SpeakerBlock(nn.Module):
    """Time delay, Res2Net, time delay, squeeze-excitation, with a residual around them."""

    def __init__(self, inputs: int, outputs: int, config: SpeakerConfig, kernel: int, dilation: int) -> None:
        super().__init__()
        self.tdnn1, self.tdnn2 = TimeDelay(inputs, outputs), TimeDelay(outputs, outputs)
        self.res2net_block = Res2Net(outputs, config.scale, kernel, dilation)
        self.se_block = SqueezeExcitation(outputs, config.squeeze)

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.se_block(self.tdnn2(self.res2net_block(self.tdnn1(x)))) + x
        return out


class AttentiveStatistics(nn.Module):
    """Mean and deviation over time, weighted by attention that knows the plain ones."""

    def __init__(self, channels: int, attention: int) -> None:
        super().__init__()
        self.tdnn = TimeDelay(3 * channels, attention)
        self.conv = _conv(attention, channels)

    def forward(self, x: Tensor) -> Tensor:
        even = x.new_full((1, 1, x.shape[2]), 1.0 / x.shape[2])
        plain = [part[..., None].expand_as(x) for part in _statistics(x, even)]
        weights = self.conv(self.tdnn(torch.cat([x, *plain], dim=1)).tanh()).softmax(dim=2)
        return torch.cat(_statistics(x, weights), dim=1)[..., None]


def _statistics(x: Tensor, weights: Tensor) -> tuple[Tensor, Tensor]:
    mean = (weights * x).sum(2)
    variance = (weights * (x - mean[..., None]).square()).sum(2)
    return mean, variance.clamp(LEAST_VARIANCE).sqrt()


class SpeakerEncoder(nn.Module):
    """Role Encoder (omniflow.roles)."""

    def __init__(self, config: SpeakerConfig) -> None:
        super().__init__()
        self.config = config
        channels, kernels, dilations = config.channels, config.kernels, config.dilations
        first = TimeDelay(config.mels, channels[0], kernels[0], dilations[0])
        middle = [
            SpeakerBlock(channels[i - 1], channels[i], config, kernels[i], dilations[i])
            for i in range(1, len(channels) - 1)
        ]
        self.blocks = nn.ModuleList([first, *middle])
        self.mfa = TimeDelay(channels[-1], channels[-1], kernels[-1], dilations[-1])
        self.asp = AttentiveStatistics(channels[-1], config.attention)
        self.fc = _conv(2 * channels[-1], config.output)

    @torch.inference_mode()
    def encode(self, rows: Sequence[Mapping[str, Tensor]]) -> list[Mapping[str, Tensor]]:
        """{"mel": [R, mels]} to {"timbre": [E], "neutral": [E]}, that of the clip and that of an empty one.

        Errors: ValueError for a clip of another height or too short for the convolutions' borders.
        """
        return [self._row(row["mel"]) for row in rows]  # statistics over time: rows of other lengths do not mix

    def _row(self, mel: Tensor) -> Mapping[str, Tensor]:
        reach = max(d * (k - 1) for d, k in zip(self.config.dilations, self.config.kernels, strict=True)) // 2
        if mel.ndim != 2 or mel.shape[1] != self.config.mels or mel.shape[0] <= reach:
            raise ValueError(
                f"a reference clip must be [more than {reach} frames, {self.config.mels}], not {list(mel.shape)}"
            )
        clip = mel.to(self.fc.weight)
        timbre, neutral = self(torch.stack([clip, torch.zeros_like(clip)]))
        return {"timbre": timbre, "neutral": neutral}

    def forward(self, mel: Tensor) -> Tensor:
        """[B, R, mels] to [B, E]."""
        x, outputs = mel.transpose(1, 2), []
        for block in self.blocks:
            x = block(x)
            outputs.append(x)
        pooled = self.asp(self.mfa(torch.cat(outputs[1:], dim=1)))
        vector: Tensor = self.fc(pooled)[..., 0]
        return vector


def load_speaker(folder: Path, *, dtype: torch.dtype, device: torch.device) -> SpeakerEncoder:
    """The speaker encoder of a checkpoint. Errors: CheckpointError."""
    config = SpeakerConfig.parse(read_section(folder, "token2wav_config.dit_config"))
    with torch.device("meta"):
        encoder = SpeakerEncoder(config)
    return fill(encoder, Checkpoint(folder), PREFIX, dtype=dtype, device=device)
