"""Decoding latents to pixels tile by tile, with neighbouring tiles blended where they overlap."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import torch
from torch import Tensor

from omniflow.loops.base import BadResult, Done, Emit, Loop, Start, Unit, Wait
from omniflow.loops.checks import NOT_FINITE, are_finite
from omniflow.roles import TileDecoder
from omniflow_compiler.schedule import Node


class Tile(NamedTuple):
    """A rectangle of the latent: first row and column, height and width."""

    top: int
    left: int
    height: int
    width: int


@dataclass(slots=True, kw_only=True, eq=False)
class Painting:
    """One latent [C, ..., H, W]; pixels and weights [..., s * H, s * W, C] gather the tiles done so far."""

    latent: Tensor
    tiles: Sequence[Tile]
    overlap: int
    next_tile: int = 0
    pixels: Tensor | None = None
    weights: Tensor | None = None


class VaeTile(Loop[Painting]):
    """Port in: a latent [C, H, W] or [C, T, H, W]. Port out: an image [s * H, s * W, channels], or frames of them."""

    lanes: ClassVar[int] = 4

    def __init__(self, node: Node, expert: TileDecoder) -> None:
        self.expert = expert
        self.entry = node.inputs[0].name
        self.port = node.outputs[0].name

    def check(self, params: Mapping[str, Any]) -> None:
        """Errors: ValueError when tiles overlap by half or more."""
        side, overlap = int(params.get("tile", 0)), int(params.get("overlap", 0))
        if side and 2 * overlap >= side:
            raise ValueError(f"tiles of {side} cannot overlap by {overlap}; half a tile is too much")

    def init(self, start: Start) -> Painting:
        """Errors: ValueError when tiles overlap by half or more."""
        latent: Tensor = start.values[self.entry]
        side, overlap = int(start.params.get("tile", 0)), int(start.params.get("overlap", 0))
        if latent.ndim not in (3, 4):
            raise ValueError(f"a latent has shape [C, H, W] or [C, T, H, W], not {list(latent.shape)}")
        self.check(start.params)
        height, width = latent.shape[-2:]
        rows, columns = _spans(height, side, overlap), _spans(width, side, overlap)
        tiles = [Tile(top, left, h, w) for top, h in rows for left, w in columns]
        return Painting(latent=latent, tiles=tiles, overlap=overlap)

    def next(self, state: Painting) -> Unit | Wait | Done:
        """The next tile, row by row."""
        if state.next_tile == len(state.tiles):
            return Done("end")
        tile = state.tiles[state.next_tile]
        part = state.latent[..., tile.top : tile.top + tile.height, tile.left : tile.left + tile.width]
        return Unit("vae_tile", ("vae", id(self.expert), tuple(part.shape)), state, payload=part)

    @torch.inference_mode()
    def execute(self, expert: TileDecoder, units: Sequence[Unit]) -> list[Tensor | BadResult]:
        """Tiles of one shape in one call."""
        results = expert.decode_tiles([unit.payload for unit in units])
        rows = zip(results, units, are_finite(results), strict=True)
        return [_checked(result, unit.payload, expert.scale, ok) for result, unit, ok in rows]

    @torch.inference_mode()
    def advance(self, state: Painting, result: Tensor) -> list[Emit]:
        """Blends the tile in."""
        tile = state.tiles[state.next_tile]
        state.next_tile += 1
        if len(state.tiles) == 1:
            state.pixels = result
            return []
        scale = self.expert.scale
        height, width = state.latent.shape[-2:]
        if state.pixels is None or state.weights is None:
            state.pixels = result.new_zeros(*result.shape[:-3], scale * height, scale * width, result.shape[-1])
            state.weights = result.new_zeros(scale * height, scale * width, 1)
        down = _ramp(tile.top, tile.height, height, state.overlap, scale)
        across = _ramp(tile.left, tile.width, width, state.overlap, scale)
        weight = (down[:, None] * across)[..., None].to(result)
        at = (
            ...,
            slice(scale * tile.top, scale * (tile.top + tile.height)),
            slice(scale * tile.left, scale * (tile.left + tile.width)),
            slice(None),
        )
        state.pixels[at] += weight * result
        state.weights[at] += weight
        return []

    @torch.inference_mode()
    def finalize(self, state: Painting) -> list[Emit]:
        """The whole image."""
        assert state.pixels is not None
        return [Emit(self.port, state.pixels if state.weights is None else state.pixels / state.weights)]


def _spans(size: int, side: int, overlap: int) -> list[tuple[int, int]]:
    """(first, length) of tiles that cover `size` elements; the last one ends at the border."""
    if not side or side >= size:
        return [(0, size)]
    firsts = list(range(0, size - side, side - overlap))
    return [(first, side) for first in (*firsts, size - side)]


def _ramp(first: int, length: int, size: int, overlap: int, scale: int) -> Tensor:
    """Weights along one axis: rising over the overlap at inner borders, 1 elsewhere."""
    weights = torch.ones(length * scale)
    if overlap:
        rise = (torch.arange(overlap * scale) + 0.5) / (overlap * scale)
        if first > 0:
            weights[: len(rise)] = rise
        if first + length < size:
            weights[-len(rise) :] = rise.flip(0)
    return weights


def _checked(result: Tensor, part: Tensor, scale: int, is_finite: bool) -> Tensor | BadResult:
    if result.ndim != part.ndim or result.shape[-3:-1] != (scale * part.shape[-2], scale * part.shape[-1]):
        return BadResult(f"pixels {list(result.shape)} of a latent tile {list(part.shape)}")
    return result if is_finite else BadResult(NOT_FINITE, is_finite=False)
