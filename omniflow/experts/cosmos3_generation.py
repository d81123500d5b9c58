"""The generating experts of Cosmos 3: clips and sound are denoised together against the text's keys and values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor

from omniflow.experts.cosmos3_understanding import attention, turn
from omniflow.experts.hf_rows import by_shape
from omniflow.experts.lean import LeanSequence
from omniflow.experts.pixels import MOST_FRAMES, whole_pixels
from omniflow.kv import KvArena
from omniflow.roles import Latents

TRAIN_STEPS = 1000
MOST_SECONDS = 3600  # of sound
VIDEO, SOUND = "latents", "sound"


@dataclass(frozen=True, slots=True, kw_only=True)
class Sizes:
    """Pixels and frames per latent element; samples a second of sound (0: none) and per latent frame of it."""

    scale: int
    temporal: int
    sound_rate: int
    sound_hop: int


class _Row(NamedTuple):
    """latent [C, T, H, W]; sound [S, D], empty where none is made."""

    latent: Tensor
    sound: Tensor | None
    time: float
    text: LeanSequence
    fps: float


class Generation:
    """The denoising half of the mixture; it reads the arena that the other half wrote."""

    def __init__(self, model: Any, arena: KvArena, sizes: Sizes, *, dtype: torch.dtype, device: torch.device) -> None:
        self.sizes = sizes
        self.dtype, self.device = dtype, device
        self._model = model
        self._arena = arena

    def initial(self, conditions: Mapping[str, Any], *, generator: torch.Generator) -> Latents:
        """Noise [C, T, H, W], and [S, D] for sound. Errors: ValueError for sizes or sound that cannot be."""
        config, sizes = self._model.config, self.sizes
        frames = whole_pixels(conditions["frames"], "frames", most=MOST_FRAMES)
        height, width = (whole_pixels(conditions[name], name, least=sizes.scale) for name in ("height", "width"))
        if height % sizes.scale or width % sizes.scale:
            raise ValueError(f"height and width must be multiples of {sizes.scale}, not {height} and {width}")
        shape = (config.latent_channel, (frames - 1) // sizes.temporal + 1, height // sizes.scale, width // sizes.scale)
        latents = {VIDEO: torch.randn(1, *shape, generator=generator)[0].to(self.device)}
        fps = _rate(conditions)
        if conditions.get("sound", False):
            if not config.sound_gen:
                raise ValueError("this checkpoint makes no sound")
            seconds = frames / fps
            if seconds > MOST_SECONDS:
                raise ValueError(
                    f"fps {fps:g} makes {frames} frames last {seconds:g} s, and sound {MOST_SECONDS} at most"
                )
            samples = int(seconds * sizes.sound_rate)
            length = -(-samples // sizes.sound_hop)
            latents[SOUND] = torch.randn(config.sound_dim, length, generator=generator).T.contiguous().to(self.device)
        return latents

    @torch.inference_mode()
    def velocity(
        self, latents: Sequence[Latents], times: Sequence[float], conditions: Sequence[Mapping[str, Any]]
    ) -> list[Latents]:
        """One forward per shape of clip and sound; texts may be of any length."""
        rows = [
            _Row(known[VIDEO], known.get(SOUND), time, self._text(given["condition"]), _rate(given))
            for known, time, given in zip(latents, times, conditions, strict=True)
            if not isinstance(known, Tensor)
        ]
        return by_shape(rows, _shape, self._run)

    def _text(self, sequence: Any) -> LeanSequence:
        if not isinstance(sequence, LeanSequence) or not sequence.is_open:
            raise ValueError("the condition is no cache of this mixture's own text")
        return sequence

    def _run(self, rows: list[_Row]) -> list[Latents]:
        """All rows' tokens through the generating experts; attention row by row, because texts differ in length."""
        model = self._model
        x = torch.stack([self._embed(row) for row in rows])
        turns = [self._turns(row) for row in rows]
        cos, sin = (torch.stack(part)[:, :, None] for part in zip(*turns, strict=True))
        for index, layer in enumerate(model.layers):
            normed = layer.input_layernorm_moe_gen(x)
            x = x + layer.self_attn.to_add_out(self._attend(layer.self_attn, normed, cos, sin, rows, index))
            x = x + layer.mlp_moe_gen(layer.post_attention_layernorm_moe_gen(x))
        x = model.norm_moe_gen(x)
        return [self._read_out(row, states) for row, states in zip(rows, x, strict=True)]

    def _attend(self, block: Any, x: Tensor, cos: Tensor, sin: Tensor, rows: Sequence[_Row], index: int) -> Tensor:
        config = self._model.config
        heads, kv_heads, dim = config.num_attention_heads, config.num_key_value_heads, config.head_dim
        batch, length, _ = x.shape
        q = turn(block.norm_added_q(block.add_q_proj(x).view(batch, length, heads, dim)), cos, sin)
        k = turn(block.norm_added_k(block.add_k_proj(x).view(batch, length, kv_heads, dim)), cos, sin)
        v = block.add_v_proj(x).view(batch, length, kv_heads, dim)
        mixed = []
        for i, row in enumerate(rows):
            start = row.text.extent.start
            text = slice(start, start + row.text.num_cached)
            keys = torch.cat([self._arena.keys[index, text], k[i]])
            values = torch.cat([self._arena.values[index, text], v[i]])
            mixed.append(attention(q[i], keys, values))
        return torch.stack(mixed).flatten(-2, -1)

    def _embed(self, row: _Row) -> Tensor:
        """Tokens of patches, then of sound, each with the time; [G, D]."""
        model = self._model
        patches = model.proj_in(self._patches(row.latent.to(self.dtype)))
        tokens = [patches + self._time(row.time, len(patches))]
        if row.sound is not None:
            sound = model.audio_proj_in(row.sound.to(self.dtype)) + model.audio_modality_embed
            tokens.append(sound + self._time(row.time, len(sound)))
        return torch.cat(tokens)

    def _time(self, time: float, count: int) -> Tensor:
        """The embedding of a time, once per token as the original computes it; [count, D]."""
        model = self._model
        step = torch.full((count,), (1.0 - time) * TRAIN_STEPS, dtype=torch.float32, device=self.device)
        scaled = model.time_proj(step * model.config.timestep_scale)
        embedder = model.time_embedder
        embedded: Tensor = embedder(scaled.to(embedder.linear_1.weight.dtype)).to(self.dtype)
        return embedded

    def _patches(self, latent: Tensor) -> Tensor:
        """[C, T, H, W] as rows of p x p squares, [T * H / p * W / p, p * p * C]; odd borders are filled with zeros."""
        p = self._model.config.latent_patch_size
        channels, frames, height, width = latent.shape
        padded = torch.nn.functional.pad(latent, (0, -width % p, 0, -height % p))
        squares = padded.reshape(channels, frames, -(-height // p), p, -(-width // p), p)
        return squares.permute(1, 2, 4, 3, 5, 0).reshape(-1, p * p * channels)

    def _read_out(self, row: _Row, states: Tensor) -> Latents:
        """Velocities by port: time runs from noise to data here, from data to noise in the original."""
        model = self._model
        p = model.config.latent_patch_size
        channels, frames, height, width = row.latent.shape
        rows, columns = -(-height // p), -(-width // p)
        count = frames * rows * columns
        squares = model.proj_out(states[:count]).reshape(frames, rows, columns, p, p, channels)
        clip = squares.permute(5, 0, 1, 3, 2, 4).reshape(channels, frames, rows * p, columns * p)
        found = {VIDEO: -clip[..., :height, :width].float()}
        if row.sound is not None:
            found[SOUND] = -model.audio_proj_out(states[count:]).float()
        return found

    def _turns(self, row: _Row) -> tuple[Tensor, Tensor]:
        """Cosines and sines [G, D] of where the tokens are behind their text: (time, row, column)."""
        config = self._model.config
        p, (_, frames, height, width) = config.latent_patch_size, row.latent.shape
        behind = float(row.text.num_cached + config.unified_3d_mrope_temporal_modality_margin)
        grid = (frames, -(-height // p), -(-width // p))
        places = [self._places(grid, behind, row.fps, self.sizes.temporal)]
        if row.sound is not None:
            places.append(self._places((len(row.sound), 1, 1), behind, float(config.sound_latent_fps), 1))
        positions = torch.cat(places, dim=1).to(self.device)
        cos, sin = self._model.rotary_emb(position_ids=positions[:, None], device=self.device, dtype=self.dtype)
        return cos[0], sin[0]

    def _places(self, grid: tuple[int, int, int], behind: float, fps: float, per_latent: int) -> Tensor:
        """Positions [3, T * H * W] of a grid; time runs at the base rate whatever the clip's own."""
        config = self._model.config
        frames, rows, columns = grid
        times = torch.arange(frames, dtype=torch.float32)
        if config.enable_fps_modulation and frames > 1:
            times = times / (fps / per_latent) * (float(config.base_fps) / per_latent)
        spatial = 0.0 if config.unified_3d_mrope_reset_spatial_ids else behind
        axes = (times + behind, torch.arange(rows) + spatial, torch.arange(columns) + spatial)
        return torch.stack([axis.flatten().float() for axis in torch.meshgrid(*axes, indexing="ij")])


def _shape(row: _Row) -> tuple[Any, ...]:
    return row.latent.shape, None if row.sound is None else row.sound.shape


def _rate(conditions: Mapping[str, Any]) -> float:
    """Frames a second. Errors: ValueError unless positive."""
    fps = conditions.get("fps", 24.0)
    if isinstance(fps, bool) or not isinstance(fps, int | float) or not 0 < fps <= 1000:
        raise ValueError(f"fps must be a number above 0 and at most 1000, not {fps!r}")
    return float(fps)
