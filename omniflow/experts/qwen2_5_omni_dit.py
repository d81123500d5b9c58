"""Qwen2.5-Omni's flow transformer: codec ids and a voice to a mel spectrogram, attending in blocks of frames.

Reference: `Qwen2_5OmniToken2WavDiTModel` of transformers (modeling_qwen2_5_omni.py). Rows of different requests, times
and lengths are one batch; the branch without conditions is a row like any other.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.utils.rnn import pad_sequence

from omniflow.experts.lean import Checkpoint
from omniflow.experts.qwen2_5_omni_tensors import Json, fill, number, numbers, read_section, rope_theta

PREFIX = "token2wav.code2wav_dit_model."
TIME_CHANNELS, TIME_SCALE = 256, 1000.0
NORM_EPS = 1e-6


@dataclass(frozen=True, slots=True, kw_only=True)
class FlowConfig:
    """block: frames that always see each other; ahead, behind: layers that also see the next or the previous block."""

    width: int
    layers: int
    heads: int
    head_dim: int
    hidden: int
    codes: int
    code_width: int
    repeats: int
    mels: int
    timbre: int
    speaker: int
    block: int
    ahead: frozenset[int]
    behind: frozenset[int]
    longest: int
    theta: float

    @staticmethod
    def parse(section: Mapping[str, Json]) -> FlowConfig:
        """Errors: CheckpointError naming the field."""
        width = number(section, "hidden_size")
        return FlowConfig(
            width=width,
            layers=number(section, "num_hidden_layers"),
            heads=number(section, "num_attention_heads"),
            head_dim=number(section, "head_dim"),
            hidden=width * number(section, "ff_mult"),
            codes=number(section, "num_embeds") + 1,
            code_width=number(section, "emb_dim"),
            repeats=number(section, "repeats"),
            mels=number(section, "mel_dim"),
            timbre=number(section, "enc_dim"),
            speaker=number(section, "enc_emb_dim"),
            block=number(section, "block_size"),
            ahead=frozenset(numbers(section, "look_ahead_layers")),
            behind=frozenset(numbers(section, "look_backward_layers")),
            longest=number(section, "max_position_embeddings"),
            theta=rope_theta(section),
        )


class Modulation(nn.Module):
    """`parts` vectors per row out of its time embedding."""

    def __init__(self, width: int, parts: int) -> None:
        super().__init__()
        self.linear = nn.Linear(width, parts * width)
        self.parts = parts

    def forward(self, time: Tensor) -> tuple[Tensor, ...]:
        """[B, width] to `parts` tensors [B, 1, width]."""
        return tuple(part[:, None] for part in self.linear(F.silu(time)).chunk(self.parts, dim=1))


class Window:
    """Which frames see each other: those of their own block, and of `behind` blocks before and `ahead` after it.

    A frame is compared with those that it sees and no others, so that the work grows with the length of a clip and not
    with its square. Padding may see anything, so that it stays finite; nobody sees it.
    """

    def __init__(self, lengths: Sequence[int], block: int, behind: int, ahead: int, *, like: Tensor) -> None:
        self.block, self.behind, self.ahead = block, behind, ahead
        num_blocks = -(-max(lengths) // block)
        self.mask: Tensor | None = None
        if behind or ahead or any(length != num_blocks * block for length in lengths):
            place = torch.arange(num_blocks * block).view(num_blocks, block)
            is_there = self._around(place < torch.tensor(lengths)[:, None, None])
            is_padding = ~is_there.any(dim=-1, keepdim=True)
            unseen = ~(is_there | is_padding).flatten(0, 1)[:, None, None]  # [B * N, 1, 1, seen]
            self.mask = like.new_zeros(unseen.shape).masked_fill_(unseen.to(like.device), -torch.inf)  # added to scores

    def attend(self, query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        """query, key, value and what is returned: [B, T, heads, D] for T whole blocks."""
        blocks = query.unflatten(1, (-1, self.block)).flatten(0, 1)
        keys, values = (self._around(x.unflatten(1, (-1, self.block))).flatten(0, 1) for x in (key, value))
        mixed = F.scaled_dot_product_attention(
            blocks.transpose(1, 2), keys.transpose(1, 2), values.transpose(1, 2), attn_mask=self.mask
        )
        return mixed.transpose(1, 2).reshape(query.shape)

    def _around(self, x: Tensor) -> Tensor:
        """[B, N, block, ...] as [B, N, blocks that are seen * block, ...]; zeros beyond the ends."""
        if not (self.behind or self.ahead):
            return x
        wide = F.pad(x, (0, 0) * (x.dim() - 2) + (self.behind, self.ahead))
        neighbours = [wide[:, i : i + x.shape[1]] for i in range(self.behind + 1 + self.ahead)]
        return torch.cat(neighbours, dim=2)


class FlowAttention(nn.Module):
    """Attention whose first head alone has rotary positions, in the interleaved layout."""

    def __init__(self, config: FlowConfig) -> None:
        super().__init__()
        inner = config.heads * config.head_dim
        self.to_q, self.to_k, self.to_v = (nn.Linear(config.width, inner) for _ in range(3))
        self.to_out = nn.ModuleList([nn.Linear(inner, config.width)])
        self.heads = config.heads

    def forward(self, x: Tensor, cos: Tensor, sin: Tensor, window: Window) -> Tensor:
        query, key, value = (p(x).unflatten(-1, (self.heads, -1)) for p in (self.to_q, self.to_k, self.to_v))
        _turn_first(query, cos, sin)
        _turn_first(key, cos, sin)
        out: Tensor = self.to_out[0](window.attend(query, key, value).flatten(2))
        return out


class FeedForward(nn.Module):
    """Two layers with a tanh-approximated GELU; numbered as in the checkpoint."""

    def __init__(self, config: FlowConfig) -> None:
        super().__init__()
        self.ff = nn.ModuleDict(
            {"0": nn.Linear(config.width, config.hidden), "3": nn.Linear(config.hidden, config.width)}
        )

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.ff["3"](F.gelu(self.ff["0"](x), approximate="tanh"))
        return out


class FlowBlock(nn.Module):
    """Attention and feed-forward part, both modulated by time."""

    def __init__(self, config: FlowConfig) -> None:
        super().__init__()
        self.attn_norm = Modulation(config.width, 6)
        self.attn = FlowAttention(config)
        self.ff = FeedForward(config)

    def forward(self, x: Tensor, time: Tensor, cos: Tensor, sin: Tensor, window: Window) -> Tensor:
        shift, scale, gate, shift_ff, scale_ff, gate_ff = self.attn_norm(time)
        x = x + gate * self.attn(_normed(x) * (1 + scale) + shift, cos, sin, window)
        out: Tensor = x + gate_ff * self.ff(_normed(x) * (1 + scale_ff) + shift_ff)
        return out


class TimeEmbed(nn.Module):
    """Sinusoids of the flow's time through a small network."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.time_mlp = nn.ModuleDict({"0": nn.Linear(TIME_CHANNELS, width), "2": nn.Linear(width, width)})

    def forward(self, times: Tensor) -> Tensor:
        half = TIME_CHANNELS // 2
        scales = torch.exp(torch.arange(half, device=times.device).float() * -(math.log(10000) / (half - 1)))
        angles = TIME_SCALE * times[:, None] * scales[None]
        waves = torch.cat([angles.sin(), angles.cos()], dim=-1)
        out: Tensor = self.time_mlp["2"](F.silu(self.time_mlp["0"](waves)))
        return out


class CodeEmbed(nn.Module):
    """The table of codec ids."""

    def __init__(self, config: FlowConfig) -> None:
        super().__init__()
        self.codec_embed = nn.Embedding(config.codes, config.code_width)


class InputEmbed(nn.Module):
    """Noisy mel, timbre, code and speaker vector of a frame to the transformer's width."""

    def __init__(self, config: FlowConfig) -> None:
        super().__init__()
        self.proj = nn.Linear(config.mels + config.timbre + config.speaker + config.code_width, config.width)


class FlowTransformer(nn.Module):
    """Role Denoiser (omniflow.roles).

    Conditions: `codes` int64 [M]; `speaker` [S], `timbre` [E] and `neutral` [E] (the timbre of no clip) of a voice.
    """

    any_length = True

    def __init__(self, config: FlowConfig) -> None:
        super().__init__()
        self.config = config
        self.time_embed = TimeEmbed(config.width)
        self.text_embed = CodeEmbed(config)
        self.input_embed = InputEmbed(config)
        self.transformer_blocks = nn.ModuleList(FlowBlock(config) for _ in range(config.layers))
        self.norm_out = Modulation(config.width, 2)
        self.proj_out = nn.Linear(config.width, config.mels)

    def initial(self, conditions: Mapping[str, Tensor], *, generator: torch.Generator) -> Tensor:
        """Noise [M * repeats, mels]: `noise` [M, repeats * mels] of the conditions, or drawn.

        Errors: ValueError for codes outside the table, or too many of them.
        """
        codes, config = conditions["codes"], self.config
        frames = len(codes) * config.repeats
        if frames > config.longest:
            raise ValueError(
                f"{len(codes)} codes are {frames} frames, this checkpoint decodes at most {config.longest}"
            )
        if len(codes) and not 0 <= int(codes.min()) <= int(codes.max()) < config.codes:
            raise ValueError(f"codes must be 0 to {config.codes - 1}, got {int(codes.min())} to {int(codes.max())}")
        weight = self.proj_out.weight
        if "noise" in conditions:
            return conditions["noise"].to(weight).reshape(frames, config.mels)
        noise = torch.randn(frames, config.mels, generator=generator, dtype=torch.float32)
        return noise.to(device=weight.device, dtype=weight.dtype)

    def unconditional(self, conditions: Mapping[str, Tensor]) -> Mapping[str, Tensor]:
        """The same clip of code 0 and nobody's voice."""
        return {
            "codes": torch.zeros_like(conditions["codes"]),
            "speaker": torch.zeros_like(conditions["speaker"]),
            "timbre": conditions["neutral"],
        }

    @torch.inference_mode()
    def velocity(
        self, latents: Sequence[Tensor], times: Sequence[float], conditions: Sequence[Mapping[str, Tensor]]
    ) -> list[Tensor]:
        """Velocities [T, mels] of latents [T, mels]; shorter rows are padded and their padding is never seen."""
        lengths = [len(latent) for latent in latents]
        frames = [self._frames(latent, own) for latent, own in zip(latents, conditions, strict=True)]
        wide = pad_sequence(frames, batch_first=True)
        x = self.input_embed.proj(F.pad(wide, (0, 0, 0, -wide.shape[1] % self.config.block)))
        time = self.time_embed(torch.tensor(times, dtype=torch.float32, device=x.device)).to(x.dtype)
        cos, sin = self._rotation(x)
        reaches = [self._reach(index) for index in range(self.config.layers)]
        windows = {reach: Window(lengths, self.config.block, *reach, like=x) for reach in set(reaches)}
        for block, reach in zip(self.transformer_blocks, reaches, strict=True):
            x = block(x, time, cos, sin, windows[reach])
        scale, shift = self.norm_out(time)
        out = self.proj_out(_normed(x) * (1 + scale) + shift)
        return [own[:n] for own, n in zip(out, lengths, strict=True)]

    def _frames(self, latent: Tensor, conditions: Mapping[str, Tensor]) -> Tensor:
        """[T, mels + E + C + S]: what every frame of a row is made of."""
        codes = F.embedding(conditions["codes"].to(latent.device), self.text_embed.codec_embed.weight)
        codes = codes.repeat_interleave(self.config.repeats, dim=0)
        timbre, speaker = (conditions[name].to(latent).expand(len(latent), -1) for name in ("timbre", "speaker"))
        return torch.cat([latent, timbre, codes, speaker], dim=-1)

    def _rotation(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """[T, head_dim / 2] each."""
        half = torch.arange(0, self.config.head_dim, 2, dtype=torch.float32, device=x.device) / self.config.head_dim
        angles = torch.arange(x.shape[1], device=x.device)[:, None].float() * (1.0 / self.config.theta**half)
        return angles.cos().to(x.dtype), angles.sin().to(x.dtype)

    def _reach(self, layer: int) -> tuple[int, int]:
        """How many blocks behind and ahead a layer sees."""
        return int(layer in self.config.behind), int(layer in self.config.ahead)


def _normed(x: Tensor) -> Tensor:
    return F.layer_norm(x, x.shape[-1:], eps=NORM_EPS)


def _turn_first(x: Tensor, cos: Tensor, sin: Tensor) -> None:
    """Turns the first head of [B, T, heads, D] where it lies; its even channels then come before its odd ones."""
    even, odd = x[:, :, 0, 0::2], x[:, :, 0, 1::2]
    x[:, :, 0] = torch.cat([even * cos - odd * sin, odd * cos + even * sin], dim=-1)


def load_dit(folder: Path, *, dtype: torch.dtype, device: torch.device) -> FlowTransformer:
    """The flow transformer of a checkpoint, without its speaker encoder. Errors: CheckpointError."""
    config = FlowConfig.parse(read_section(folder, "token2wav_config.dit_config"))
    with torch.device("meta"):
        transformer = FlowTransformer(config)
    others = ("input_embed.spk_encoder.",)
    return fill(transformer, Checkpoint(folder), PREFIX, dtype=dtype, device=device, others=others)
