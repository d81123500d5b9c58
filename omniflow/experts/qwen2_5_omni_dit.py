"""Qwen2.5-Omni's flow transformer: codec ids and a voice to a mel spectrogram, attending in blocks of frames.

Reference: `Qwen2_5OmniToken2WavDiTModel` of transformers (modeling_qwen2_5_omni.py). Rows of different requests, times
and lengths are one batch; the branch without conditions is a row like any other.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from omniflow.experts.lean import Checkpoint
from omniflow.experts.lean.linear import prepare
from omniflow.experts.qwen2_5_omni_dit_layer import PARTS, Window, layer_shapes, make_layer, modulated
from omniflow.experts.qwen2_5_omni_tensors import Json, number, numbers, read, read_section, rope_theta

PREFIX = "token2wav.code2wav_dit_model."
TIME_CHANNELS, TIME_SCALE = 256, 1000.0
LAYERS = "transformer_blocks"
KEPT = 64  # times, lengths and batches that are remembered


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


class Modulator:
    """What a time does to every layer: a small network over its sinusoids, then a matrix for all layers at once."""

    def __init__(self, tensors: Mapping[str, Tensor], num_layers: int) -> None:
        self.first, self.second = (_pair(tensors, f"time_embed.time_mlp.{index}") for index in (0, 2))
        names = [*(f"{LAYERS}.{index}.attn_norm.linear" for index in range(num_layers)), "norm_out.linear"]
        weights, biases = zip(*(_pair(tensors, name) for name in names), strict=True)
        self.weight, self.bias = torch.cat(weights), torch.cat(biases)
        self.width = self.weight.shape[1]
        scales = self.bias.view(-1, self.width)
        for index in range(num_layers):
            scales[PARTS * index + 1 : PARTS * index + PARTS : 3] += 1.0
        scales[-2] += 1.0  # behind the layers scale comes first, then shift

    def __call__(self, time: float) -> Tensor:
        """[PARTS * layers + 2, width]; scales have the 1 in them that the reference adds later."""
        half = TIME_CHANNELS // 2
        scales = torch.exp(torch.arange(half).float() * -(math.log(10000) / (half - 1)))
        angles = TIME_SCALE * torch.tensor([time], dtype=torch.float32) * scales
        waves = torch.cat([angles.sin(), angles.cos()]).to(self.weight)
        embedded = F.linear(F.silu(F.linear(waves, *self.first)), *self.second)
        return F.linear(F.silu(embedded), self.weight, self.bias).view(-1, self.width)


class FlowTransformer:
    """Role Denoiser (omniflow.roles).

    Conditions: `codes` int64 [M]; `speaker` [S], `timbre` [E] and `neutral` [E] (the timbre of no clip) of a voice.
    What depends on the times of a flow, on the lengths of a batch or on a clip's conditions is made once.
    """

    any_length = True

    def __init__(self, config: FlowConfig, tensors: Mapping[str, Tensor]) -> None:
        self.config = config
        self.table = tensors["text_embed.codec_embed.weight"]
        weight, self.enter_bias = _pair(tensors, "input_embed.proj")
        self.enter, self.enter_given = (part.contiguous() for part in weight.tensor_split([config.mels], dim=1))
        self.leave = prepare(*_pair(tensors, "proj_out"))
        reaches = [(int(i in config.behind), int(i in config.ahead)) for i in range(config.layers)]
        self.layers = [
            make_layer(tensors, f"{LAYERS}.{index}.", heads=config.heads, reach=reach)
            for index, reach in enumerate(reaches)
        ]
        modulator = Modulator(tensors, config.layers)
        self._modulations = lru_cache(KEPT)(modulator)
        self._windows = lru_cache(KEPT)(self._make_windows)
        self._turns = lru_cache(KEPT)(self._make_turns)

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
        if "noise" in conditions:
            return conditions["noise"].to(self.table).reshape(frames, config.mels)
        noise = torch.randn(frames, config.mels, generator=generator, dtype=torch.float32)
        return noise.to(self.table)

    def unconditional(self, conditions: Mapping[str, Tensor]) -> Mapping[str, Tensor]:
        """The same clip of code 0 and nobody's voice."""
        return {
            "codes": torch.zeros_like(conditions["codes"]),
            "speaker": torch.zeros_like(conditions["speaker"]),
            "timbre": conditions["neutral"],
        }

    @torch.inference_mode()
    def prepare(self, conditions: Mapping[str, Tensor]) -> Mapping[str, Tensor]:
        """`given` [T, width]: what all but the latent adds to what the first layer sees."""
        codes = F.embedding(conditions["codes"].to(self.table.device), self.table)
        timbre, speaker = (conditions[name].to(codes).expand(len(codes), -1) for name in ("timbre", "speaker"))
        given = F.linear(torch.cat([timbre, codes, speaker], dim=-1), self.enter_given, self.enter_bias)
        return {"given": given.repeat_interleave(self.config.repeats, dim=0)}

    @torch.inference_mode()
    def velocity(
        self, latents: Sequence[Tensor], times: Sequence[float], conditions: Sequence[Mapping[str, Tensor]]
    ) -> list[Tensor]:
        """Velocities [T, mels] of latents [T, mels]; shorter rows are padded and their padding is never seen."""
        lengths = tuple(len(latent) for latent in latents)
        if not any(lengths):
            return [torch.zeros_like(latent) for latent in latents]
        given = self._together([self._given(own) for own in conditions], lengths)
        x = given.add_(F.linear(self._together(latents, lengths), self.enter))
        parts = self._parts(times)
        turns, windows = self._turns(x.shape[1]), self._windows(lengths)
        for index, layer in enumerate(self.layers):
            x = layer(x, parts[PARTS * index : PARTS * index + PARTS], turns, windows[layer.reach])
        out = self.leave(modulated(x, *parts[-2:]))
        return [own[:n] for own, n in zip(out.unbind(), lengths, strict=True)]

    def _given(self, conditions: Mapping[str, Tensor]) -> Tensor:
        return (conditions if "given" in conditions else self.prepare(conditions))["given"]

    def _together(self, rows: Sequence[Tensor], lengths: Sequence[int]) -> Tensor:
        """[B, T, ...] for T whole blocks."""
        if min(lengths) == max(lengths) and lengths[0] % self.config.block == 0:
            return torch.stack(list(rows))
        wide = pad_sequence(list(rows), batch_first=True)
        return F.pad(wide, (0, 0, 0, -wide.shape[1] % self.config.block))

    def _parts(self, times: Sequence[float]) -> Sequence[Tensor]:
        """Of every layer and what follows them: [width] each where all rows have one time, or [B, 1, width]."""
        if len(set(times)) == 1:
            return self._modulations(times[0]).unbind()
        return torch.stack([self._modulations(time) for time in times], dim=1)[:, :, None].unbind()

    def _make_windows(self, lengths: Sequence[int]) -> Mapping[tuple[int, int], Window]:
        return {
            reach: Window(lengths, self.config.block, *reach, like=self.table)
            for reach in {layer.reach for layer in self.layers}
        }

    def _make_turns(self, length: int) -> Tensor:
        """Complex [T, 1, head_dim / 2]."""
        half = torch.arange(0, self.config.head_dim, 2, dtype=torch.float32) / self.config.head_dim
        angles = torch.arange(length)[:, None].float() * (1.0 / self.config.theta**half)
        return torch.polar(torch.ones_like(angles), angles)[:, None].to(self.table.device)


def _pair(tensors: Mapping[str, Tensor], name: str) -> tuple[Tensor, Tensor]:
    return tensors[f"{name}.weight"], tensors[f"{name}.bias"]


def _shapes(config: FlowConfig) -> Mapping[str, tuple[int, ...]]:
    """Of all tensors."""
    width, given = config.width, config.timbre + config.code_width + config.speaker
    own = layer_shapes(width, config.heads * config.head_dim, config.hidden)
    matrices = {
        "time_embed.time_mlp.0": (width, TIME_CHANNELS),
        "time_embed.time_mlp.2": (width, width),
        "input_embed.proj": (width, config.mels + given),
        **{f"{LAYERS}.{index}.{name}": shape for index in range(config.layers) for name, shape in own.items()},
        "norm_out.linear": (2 * width, width),
        "proj_out": (config.mels, width),
    }
    biases = {f"{name}.bias": shape[:1] for name, shape in matrices.items()}
    weights = {f"{name}.weight": shape for name, shape in matrices.items()}
    return {"text_embed.codec_embed.weight": (config.codes, config.code_width), **weights, **biases}


def load_dit(folder: Path, *, dtype: torch.dtype, device: torch.device) -> FlowTransformer:
    """The flow transformer of a checkpoint, without its speaker encoder. Errors: CheckpointError."""
    config = FlowConfig.parse(read_section(folder, "token2wav_config.dit_config"))
    others = ("input_embed.spk_encoder.",)
    tensors = read(_shapes(config), Checkpoint(folder), PREFIX, dtype=dtype, device=device, others=others)
    return FlowTransformer(config, tensors)
