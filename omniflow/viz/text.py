"""How wide a line of text is, without a font: good enough to size cards, and the same on every machine."""

from __future__ import annotations

import unicodedata

_NARROW = frozenset("iljtfrI.,:;|!'`()[]{}/\\- ")
_WIDE = frozenset("mwMWOQGD@%—…")


def sans_width(text: str, size: float, *, bold: bool = False) -> float:
    """Width in the unit of `size` of a line in a usual sans-serif face, on the generous side."""
    return sum(_advance(character) for character in text) * size * (1.07 if bold else 1.0)


def mono_width(text: str, size: float) -> float:
    """Width of a line in a monospaced face: 0.6 of its size for a character, twice that for wide ones."""
    return sum(2 if _is_wide(character) else 1 for character in text) * size * 0.603


def shorten(text: str, limit: int) -> str:
    """At most `limit` columns: what is too long loses its middle. Control characters become visible."""
    clean = "".join(character if character.isprintable() else "↵" for character in text)
    if _columns(clean) <= limit:
        return clean
    half = (limit - 1) // 2
    return _head(clean, limit - 1 - half) + "…" + _head(clean[::-1], half)[::-1]


def _head(text: str, limit: int) -> str:
    used = 0
    for position, character in enumerate(text):
        used += 2 if _is_wide(character) else 1
        if used > limit:
            return text[:position]
    return text


def _columns(text: str) -> int:
    return sum(2 if _is_wide(character) else 1 for character in text)


def _advance(character: str) -> float:
    if _is_wide(character):
        return 1.04
    if character in _NARROW:
        return 0.34
    if character in _WIDE:
        return 0.88
    return 0.7 if character.isupper() else 0.575


def _is_wide(character: str) -> bool:
    return unicodedata.east_asian_width(character) in "WF"
