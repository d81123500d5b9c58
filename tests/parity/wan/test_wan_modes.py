"""`omniflow verify` of the family: every mode gives what each request gives alone."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from omniflow.verification.cases import Case
from omniflow.verification.verify import verify
from tests.parity.diffusion import PROMPTS, program
from tests.parity.wan.conftest import Reference

pytestmark = pytest.mark.hf


@pytest.mark.parametrize("name", ["video"])
def test_every_mode_gives_the_same_answer(references: Callable[..., Reference], name: str) -> None:
    schedule = program(references(0).folder, f"wan/{name}", text_length=16, steps=2)
    cases = [
        Case(inputs={"prompt": prompt, "frames": 5, "height": 32, "width": 16 + 16 * (i % 2)}, seed=i)
        for i, prompt in enumerate(PROMPTS[:3])
    ]
    rows = list(verify(schedule, cases, pruned=lambda output: None))
    assert len(rows) > 8
    assert [f"{row.mode}: {row.problem}" for row in rows if not row.holds] == []
