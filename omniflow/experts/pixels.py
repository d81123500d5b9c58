"""Sizes of pictures as requests name them."""

from __future__ import annotations

from typing import Any

MOST_PIXELS = 8192  # along one axis; what is larger is a mistake or an attack on memory


def whole_pixels(value: Any, name: str, *, least: int = 1, most: int = MOST_PIXELS) -> int:
    """A whole number between `least` and `most`. Errors: ValueError naming the input."""
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
        raise ValueError(f"{name} must be a whole number from {least} to {most}, not {value!r}")
    return value
