"""Sizes, rates and devices as people write them: `256 MiB`, `24 kHz`, `cuda:1`."""

from __future__ import annotations

import re
from fractions import Fraction

_UNITS = {"": 1, "B": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30, "TiB": 1 << 40,
          "kB": 10**3, "KB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12}  # fmt: skip
_BYTES = re.compile(r"\s*([0-9]{1,15}(?:\.[0-9]{1,6})?)\s*([A-Za-z]*)\s*\Z")
_DEVICE = re.compile(r"(?:cpu|cuda(?::[0-9]+)?)\Z")
_RATE = re.compile(r"\s*([0-9]{1,12}(?:\.[0-9]{1,6})?)\s*(k?Hz)\s*\Z")


def is_device(text: str) -> bool:
    """Whether it names a device: `cpu`, `cuda` or `cuda:1`."""
    return _DEVICE.match(text) is not None


def parse_bytes(text: str | int) -> int | None:
    """Bytes of `256 MiB`, `1.5 GB` or a plain number; None when it is no size."""
    if isinstance(text, int):
        return text if text > 0 else None
    match = _BYTES.match(text)
    if match is None or match.group(2) not in _UNITS:
        return None
    size = int(Fraction(match.group(1)) * _UNITS[match.group(2)])
    return size if size > 0 else None


def show_bytes(size: int) -> str:
    """`1.5 GiB`: the largest binary unit that keeps the number above one."""
    value = float(size)
    for unit in ("B", "KiB", "MiB", "GiB"):
        if value < 1024:
            return f"{value:.0f} {unit}" if unit == "B" or value >= 100 else f"{value:.1f} {unit}"
        value /= 1024
    return f"{value:.1f} TiB"


def parse_rate(text: str) -> Fraction | None:
    """Hertz of `12.5 Hz` or `24 kHz`; None when it is no rate."""
    match = _RATE.match(text)
    if match is None:
        return None
    return Fraction(match.group(1)) * (1000 if match.group(2) == "kHz" else 1) or None


def show_rate(rate: Fraction) -> str:
    """`24 kHz`, `12.5 Hz`: kilohertz from 1,000 on."""
    if rate >= 1000:
        return f"{float(rate / 1000):g} kHz"
    return f"{float(rate):g} Hz"
