"""Rotary positions: inverse frequencies per variant, and the cosines and sines of a batch of positions."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from omniflow.experts.lean.errors import CheckpointError

Json = Any
_TABLE = 256  # positions whose rotations are kept at first; twice as many as soon as that is too few


@dataclass(frozen=True, slots=True, kw_only=True)
class Llama3Scaling:
    """Frequency scaling of Llama 3.1: long wavelengths are stretched by `factor`, short ones kept, between: mixed."""

    factor: float
    low_freq_factor: float
    high_freq_factor: float
    original_max_positions: float


@dataclass(frozen=True, slots=True, kw_only=True)
class RopeConfig:
    """theta: base of the frequencies; mrope_section: how many of the head_dim / 2 frequencies each axis gets.

    Sections are contiguous (Qwen2-VL) or dealt out in turn, t h w t h w ... (`mrope_interleaved`, Qwen3-VL).
    """

    theta: float
    llama3: Llama3Scaling | None = None
    mrope_section: tuple[int, ...] | None = None
    mrope_interleaved: bool = False


def parse_rope(
    data: Mapping[str, Json],
    *,
    head_dim: int,
    where: str,
    mrope_section: tuple[int, ...] | None,
    mrope_interleaved: bool,
) -> RopeConfig:
    """Reads `rope_parameters` (or the older `rope_theta` and `rope_scaling`). Errors: CheckpointError."""
    rope = dict(data.get("rope_parameters") or data.get("rope_scaling") or {})
    kind = rope.get("rope_type", rope.get("type", "default"))
    theta = rope.get("rope_theta", data.get("rope_theta", 10000.0))
    if not isinstance(theta, (int, float)) or theta <= 0:
        raise CheckpointError(f"{where}: rope_theta must be a positive number, not {theta!r}")
    if kind not in ("default", "mrope", "llama3"):
        raise CheckpointError(f"{where}: rope_type {kind!r} is not supported, only default, llama3 and mrope")
    if rope.get("partial_rotary_factor", 1.0) != 1.0:
        raise CheckpointError(f"{where}: partial_rotary_factor {rope['partial_rotary_factor']!r} is not supported")
    section = rope.get("mrope_section")
    if mrope_section is None and section is not None:
        raise CheckpointError(f"{where}: mrope_section is not supported for model_type {data.get('model_type')!r}")
    chosen = tuple(section) if section is not None else mrope_section
    if section is not None and sum(section) != head_dim // 2:
        raise CheckpointError(f"{where}: mrope_section {section} must add up to head_dim / 2 = {head_dim // 2}")
    return RopeConfig(
        theta=float(theta),
        llama3=_parse_llama3(rope, where) if kind == "llama3" else None,
        mrope_section=chosen,
        mrope_interleaved=mrope_interleaved,
    )


def _parse_llama3(rope: Mapping[str, Json], where: str) -> Llama3Scaling:
    names = ("factor", "low_freq_factor", "high_freq_factor", "original_max_position_embeddings")
    for name in names:
        if not isinstance(rope.get(name), (int, float)):
            raise CheckpointError(f"{where}: rope_parameters.{name} must be a number, not {rope.get(name)!r}")
    factor, low, high, original = (float(rope[name]) for name in names)
    return Llama3Scaling(factor=factor, low_freq_factor=low, high_freq_factor=high, original_max_positions=original)


class Rope:
    """Turns positions into cosines and sines of the rotation angles."""

    def __init__(self, config: RopeConfig, *, head_dim: int, device: torch.device) -> None:
        exponents = torch.arange(0, head_dim, 2, dtype=torch.float32) / head_dim
        frequencies = 1.0 / (config.theta**exponents)
        if config.llama3 is not None:
            frequencies = _scale_llama3(frequencies, config.llama3)
        self._frequencies = frequencies.to(device)
        self._has_axes = config.mrope_section is not None
        self._axis = _axis_of_frequency(config, head_dim // 2).to(device) if self._has_axes else None
        self._table = self.rotation(torch.arange(_TABLE, device=device))

    @property
    def has_axes(self) -> bool:
        """Whether positions may be [axes, n]."""
        return self._has_axes

    def rotation(self, positions: Tensor) -> tuple[Tensor, Tensor]:
        """float32 cosines and sines, each [n, head_dim / 2], of int64 positions [n] or [axes, n]."""
        if positions.dim() == 1:
            angles = positions[:, None].float() * self._frequencies
        else:
            assert self._axis is not None
            angles = positions.float()[self._axis].T.contiguous() * self._frequencies
        return angles.cos(), angles.sin()

    def table(self, end: int) -> tuple[Tensor, Tensor]:
        """float32 cosines and sines [n, head_dim / 2] of positions 0, 1, ..., n of them: not fewer than `end`."""
        size = self._table[0].shape[0]
        if size < end:
            self._table = self.rotation(torch.arange(max(end, 2 * size), device=self._frequencies.device))
        return self._table


def _scale_llama3(frequencies: Tensor, scaling: Llama3Scaling) -> Tensor:
    wavelengths = 2 * math.pi / frequencies
    turns = scaling.original_max_positions / wavelengths  # full turns inside the original context
    share = (turns - scaling.low_freq_factor) / (scaling.high_freq_factor - scaling.low_freq_factor)
    share = share.clamp(0.0, 1.0)  # 0: stretched, 1: kept
    return (1 - share) * frequencies / scaling.factor + share * frequencies


def _axis_of_frequency(config: RopeConfig, num_frequencies: int) -> Tensor:
    """int64 [num_frequencies]: the axis (t, h, w) whose position turns each frequency."""
    section = config.mrope_section
    assert section is not None
    if not config.mrope_interleaved:
        return torch.repeat_interleave(torch.arange(len(section)), torch.tensor(section))[:num_frequencies]
    axis = torch.zeros(num_frequencies, dtype=torch.int64)
    for offset in range(1, len(section)):
        axis[offset : section[offset] * len(section) : len(section)] = offset
    return axis
