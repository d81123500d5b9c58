"""Colours that people with any common colour vision tell apart, and text that can be read on its ground."""

from __future__ import annotations

from itertools import combinations

import pytest

from omniflow.viz.palette import DARK, LIGHT, NUM_COLOURS, Theme, mix

# Machado, Oliveira and Fernandes, "A Physiologically-based Model for Simulation of Color Vision Deficiency" (2009),
# severity 1.0, on linear RGB.
VISIONS = {
    "usual": ((1, 0, 0), (0, 1, 0), (0, 0, 1)),
    "protan": ((0.152286, 1.052583, -0.204868), (0.114503, 0.786281, 0.099216), (-0.003882, -0.048116, 1.051998)),
    "deutan": ((0.367322, 0.860646, -0.227968), (0.280085, 0.672501, 0.047413), (-0.011820, 0.042940, 0.968881)),
    "tritan": ((1.255528, -0.076749, -0.178779), (-0.078411, 0.930809, 0.147602), (0.004733, 0.691367, 0.303900)),
}
XYZ = ((0.4124, 0.3576, 0.1805), (0.2126, 0.7152, 0.0722), (0.0193, 0.1192, 0.9505))
WHITE = (0.9505, 1.0, 1.089)


def linear(colour: str) -> list[float]:
    parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    return [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]


def times(matrix, vector: list[float]) -> list[float]:
    return [sum(a * b for a, b in zip(row, vector, strict=True)) for row in matrix]


def lab(colour: str, vision: str) -> tuple[float, float, float]:
    seen = [min(max(part, 0.0), 1.0) for part in times(VISIONS[vision], linear(colour))]
    x, y, z = (part / white for part, white in zip(times(XYZ, seen), WHITE, strict=True))
    fx, fy, fz = (part ** (1 / 3) if part > 0.008856 else 7.787 * part + 16 / 116 for part in (x, y, z))
    return 116 * fy - 16, 500 * (fx - fy), 200 * (fy - fz)


def contrast(a: str, b: str) -> float:
    dark, light = sorted(times(XYZ, linear(colour))[1] for colour in (a, b))
    return (light + 0.05) / (dark + 0.05)


@pytest.mark.parametrize("theme", [LIGHT, DARK], ids=lambda theme: theme.name)
@pytest.mark.parametrize("vision", VISIONS)
def test_expert_colours_stay_apart(theme: Theme, vision: str) -> None:
    colours = [lab(theme.values[f"e{number}"], vision) for number in range(NUM_COLOURS)]
    gaps = {
        (a, b): sum((p - q) ** 2 for p, q in zip(colours[a], colours[b], strict=True)) ** 0.5
        for a, b in combinations(range(NUM_COLOURS), 2)
    }
    closest = min(gaps, key=gaps.get)
    assert gaps[closest] > 18, (closest, gaps[closest])


@pytest.mark.parametrize("theme", [LIGHT, DARK], ids=lambda theme: theme.name)
def test_text_can_be_read_on_what_it_stands_on(theme: Theme) -> None:
    colours = theme.values
    pairs = [("ink", "ground"), ("ink", "surface"), ("muted", "ground"), ("muted", "surface"), ("plate-ink", "plate")]
    pairs += [("muted", f"e{n}-tint") for n in range(NUM_COLOURS)] + [("ink", f"e{n}-tint") for n in range(NUM_COLOURS)]
    low = {pair: contrast(colours[pair[0]], colours[pair[1]]) for pair in pairs}
    assert {pair: value for pair, value in low.items() if value < 4.5} == {}
    for number in range(NUM_COLOURS):
        chip = mix(colours[f"e{number}"], colours[f"e{number}-tint"], 0.16)
        assert contrast(colours[f"e{number}-ink"], chip) > 4.5, number
    for number in range(NUM_COLOURS):
        assert contrast(colours[f"e{number}"], colours["ground"]) > 2.2, number


def test_mixing_goes_from_ground_to_colour() -> None:
    assert mix("#ff0000", "#0000ff", 0.0) == "#0000ff"
    assert mix("#ff0000", "#0000ff", 1.0) == "#ff0000"
    assert mix("#ffffff", "#000000", 0.5) == "#808080"
