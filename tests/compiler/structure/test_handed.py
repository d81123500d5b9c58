"""Caches that are handed on stay with the component that wrote them."""

from __future__ import annotations

from pathlib import Path

import pytest

import omniflow_compiler
from omniflow_compiler.diagnostics import Faults

SPECS = Path(__file__).parents[3] / "specs" / "cosmos3"


def faults(folder: Path, program: str, card: str) -> list[str]:
    (folder / "film").mkdir()
    (folder / "film" / "understand.graph.yaml").write_text((SPECS / "understand.graph.yaml").read_text())
    (folder / "film" / "card.yaml").write_text(card)
    (folder / "film" / "p.program.yaml").write_text(program)
    with pytest.raises(Faults) as caught:
        omniflow_compiler.compile(folder / "film" / "p.program.yaml", params={"weights": "nowhere"})
    return [found.code for found in caught.value.report]


def test_a_cache_that_another_component_would_read_is_refused_for_each_edge(tmp_path: Path) -> None:
    card = (SPECS / "card.yaml").read_text()
    twice = card.replace(
        "loops:\n", "  twin: {use: cosmos3.transformer, from: $weights, dtype: $dtype}\nloops:\n"
    ).replace("kind: diffusion_denoise, binds: mixture", "kind: diffusion_denoise, binds: twin")
    assert twice != card
    program = (SPECS / "film.program.yaml").read_text()
    assert faults(tmp_path, program, twice) == ["OF2302", "OF2302"]


def test_a_cache_that_would_leave_the_program_is_refused(tmp_path: Path) -> None:
    program = (SPECS / "film.program.yaml").read_text()
    leaking = program.replace("  text: text.text\n", "  text: text.text\n  cache: wanted.kv\n")
    assert leaking != program
    assert faults(tmp_path, leaking, (SPECS / "card.yaml").read_text()) == ["OF2302"]
