"""Sizes of pictures and clips as requests name them, and of the latents that stand for them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

MOST_PIXELS = 8192  # along one axis; what is larger is a mistake or an attack on memory
MOST_FRAMES = 4096


def whole_pixels(value: Any, name: str, *, least: int = 1, most: int = MOST_PIXELS) -> int:
    """A whole number between `least` and `most`. Errors: ValueError naming the input."""
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
        raise ValueError(f"{name} must be a whole number from {least} to {most}, not {value!r}")
    return value


@dataclass(frozen=True, slots=True, kw_only=True)
class ClipSize:
    """How clips become latents: pixels and frames per latent element, latent elements per side of a patch."""

    scale: int
    temporal: int
    patch: int

    def latent(self, conditions: Mapping[str, Any]) -> tuple[int, int, int]:
        """Latent frames, rows and columns of `frames`, `height` and `width`, cut to what can be. Errors: ValueError."""
        step = self.scale * self.patch
        frames = whole_pixels(conditions["frames"], "frames", most=MOST_FRAMES)
        rows, columns = (
            self.patch * (whole_pixels(conditions[name], name, least=step) // step) for name in ("height", "width")
        )
        return (frames // self.temporal + 1 if frames > 1 else 1), rows, columns
