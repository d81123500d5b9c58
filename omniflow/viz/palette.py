"""Colours, light and dark. Experts' hues stay apart under the common colour blindnesses; text always names them too."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

# The hues of Okabe and Ito, "Color Universal Design" (2008), moved until the closest pair is at least 20 apart in CIE
# Lab for usual, protan, deutan and tritan vision alike (tests/viz/test_palette.py).
_LIGHT = ("#105aa1", "#c63f00", "#279163", "#b85892", "#07aaf9", "#df9111", "#782340", "#969248")
_DARK = ("#109beb", "#f1722a", "#5ade9c", "#df8cb7", "#b1daff", "#ffd543", "#b75771", "#d0e37e")
NUM_COLOURS = len(_LIGHT)


@dataclass(frozen=True, slots=True, kw_only=True)
class Theme:
    """A complete set of colours. `values` maps a CSS variable's name (without the dashes) to `#rrggbb`."""

    name: str
    values: Mapping[str, str]


def mix(colour: str, ground: str, part: float) -> str:
    """`part` of `colour` over `ground`; all are `#rrggbb`."""
    pairs = zip(_channels(colour), _channels(ground), strict=True)
    return "#" + "".join(f"{round(a * part + b * (1 - part)):02x}" for a, b in pairs)


def _channels(colour: str) -> tuple[int, ...]:
    return tuple(int(colour[i : i + 2], 16) for i in (1, 3, 5))


def _theme(name: str, neutral: Mapping[str, str], accents: tuple[str, ...], tint: float) -> Theme:
    values = dict(neutral)
    for number, accent in enumerate(accents):
        values[f"e{number}"] = accent
        values[f"e{number}-tint"] = mix(accent, neutral["surface"], tint)
        values[f"e{number}-ink"] = mix(accent, neutral["ink"], 0.5)
    return Theme(name=name, values=values)


LIGHT = _theme(
    "light",
    {
        "ground": "#f6f7f9",
        "surface": "#ffffff",
        "raised": "#ffffff",
        "ink": "#171c26",
        "muted": "#566070",
        "faint": "#dfe3ea",
        "edge": "#8a94a6",
        "stream": "#4a5568",
        "plate": "#2b3342",
        "plate-ink": "#ffffff",
        "focus": "#1a5fd0",
        "mark": "#ffe08a",
    },
    _LIGHT,
    0.11,
)
DARK = _theme(
    "dark",
    {
        "ground": "#0f1218",
        "surface": "#191e27",
        "raised": "#202632",
        "ink": "#e8ecf3",
        "muted": "#a6b0c1",
        "faint": "#2d3542",
        "edge": "#66718a",
        "stream": "#a5b1c6",
        "plate": "#d5dce8",
        "plate-ink": "#131720",
        "focus": "#7fb2ff",
        "mark": "#6b5410",
    },
    _DARK,
    0.17,
)
