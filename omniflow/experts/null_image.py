"""A tiny text encoder, flow and image decoder: fixed, exact enough that no batch changes a bit."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from omniflow.experts.null_text import VOCAB
from omniflow_compiler.schedule import Cache, Expert

WIDTH = 16
LATENT = (4, 8, 8)
SCALE = 8


class NullTextEncoder:
    """Role Encoder. `tokens` int64 [P] -> `embeds` f32 [P, 16]."""

    def __init__(self, *, seed: int) -> None:
        self.table = torch.randint(-4, 5, (VOCAB, WIDTH), generator=torch.Generator().manual_seed(seed)).float()

    def encode(self, rows: Sequence[Mapping[str, Tensor]]) -> list[Mapping[str, Tensor]]:
        tokens = [row["tokens"] for row in rows]
        features = self.table[torch.cat(tokens)].split([len(ids) for ids in tokens])
        return [{"embeds": part.cumsum(0)} for part in features]


class NullDenoiser:
    """Role Denoiser. `condition` f32 [P, 16]; pulls a 4 x 8 x 8 latent to a pattern that it chooses."""

    def __init__(self, *, seed: int) -> None:
        generator = torch.Generator().manual_seed(seed)
        self.patterns = torch.randint(-4, 5, (WIDTH, *LATENT), generator=generator).float()

    def initial(self, conditions: Mapping[str, Tensor], *, generator: torch.Generator) -> Tensor:
        del conditions
        return torch.randn(LATENT, generator=generator)

    def velocity(
        self, latents: Sequence[Tensor], times: Sequence[float], conditions: Sequence[Mapping[str, Tensor]]
    ) -> list[Tensor]:
        x = torch.stack(list(latents))
        choice = torch.stack([row["condition"].sum(0) % 5 - 2 for row in conditions])
        target = (choice[:, :, None, None, None] * self.patterns).sum(1) * 2.0**-5
        t = torch.tensor(times)[:, None, None, None]
        return list(target - x * (1 + t) * 0.5 + x.roll(1, dims=-1) * 0.125)


class NullImageDecoder:
    """Role TileDecoder. A latent [4, h, w] to pixels [8 * h, 8 * w, 3] in [0, 1], each from its own element."""

    scale = SCALE

    def decode_tiles(self, tiles: Sequence[Tensor]) -> list[Tensor]:
        x = torch.stack(list(tiles))
        colours = torch.stack([x[:, 0] + x[:, 3], x[:, 1] - x[:, 3], x[:, 2] + x[:, 0]], dim=-1)
        pixels = (colours * 0.25 + 0.5).clamp(0.0, 1.0)
        return list(pixels.repeat_interleave(SCALE, dim=1).repeat_interleave(SCALE, dim=2))


class NullScreen:
    """Role TileDecoder. Latents [4, F, h, w] to frames [F, 8 * h, 8 * w, 3], each by itself."""

    scale = SCALE

    def __init__(self) -> None:
        self._frames = NullImageDecoder()

    def decode_tiles(self, tiles: Sequence[Tensor]) -> list[Tensor]:
        return [torch.stack(self._frames.decode_tiles(list(tile.transpose(0, 1)))) for tile in tiles]


def load_text_encoder(spec: Expert, _cache: Cache | None) -> NullTextEncoder:
    """Attribute `seed`."""
    return NullTextEncoder(seed=int(spec.attributes.get("seed", 14)))


def load_denoiser(spec: Expert, _cache: Cache | None) -> NullDenoiser:
    """Attribute `seed`."""
    return NullDenoiser(seed=int(spec.attributes.get("seed", 15)))


def load_image_decoder(_spec: Expert, _cache: Cache | None) -> NullImageDecoder:
    """Has no attributes."""
    return NullImageDecoder()


def load_screen(_spec: Expert, _cache: Cache | None) -> NullScreen:
    """Has no attributes."""
    return NullScreen()
