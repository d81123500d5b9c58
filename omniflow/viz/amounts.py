"""Numbers as people read them: bytes in binary units, seconds in the unit that fits, counts with separators."""

from __future__ import annotations


def in_bytes(amount: int) -> str:
    """1536 -> "1.5 KiB"."""
    value = float(amount)
    for unit in ("B", "KiB", "MiB", "GiB"):
        if abs(value) < 1024:
            return f"{value:.3g} {unit}"
        value /= 1024
    return f"{value:,.4g} TiB"


def in_seconds(amount: float) -> str:
    """0.0123 -> "12.3 ms"; a minute and more in minutes."""
    if amount == 0:
        return "0 s"
    if amount >= 60:
        return f"{amount / 60:.3g} min"
    for scale, unit in ((1.0, "s"), (1e-3, "ms"), (1e-6, "µs")):
        if amount >= scale:
            return f"{amount / scale:.3g} {unit}"
    return f"{amount / 1e-9:.3g} ns"


def in_count(amount: int) -> str:
    """12345 -> "12,345"."""
    return f"{amount:,}"


def in_hertz(rate: float) -> str:
    """24000.0 -> "24 kHz", 12.5 -> "12.5 Hz"."""
    return f"{rate / 1000:g} kHz" if rate >= 1000 else f"{rate:g} Hz"


def in_percent(share: float) -> str:
    """0.613 -> "61 %"; what is small but not nothing says so."""
    return "<1 %" if 0 < share < 0.01 else f"{share * 100:.0f} %"
