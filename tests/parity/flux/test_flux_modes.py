"""`omniflow verify` of the family: every mode gives what each request gives alone."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from omniflow.verification.cases import Case
from omniflow.verification.verify import verify
from tests.parity.diffusion import PROMPTS, program
from tests.parity.flux.conftest import Reference

pytestmark = pytest.mark.hf


@pytest.mark.parametrize("name", ["image", "true_cfg"])
def test_every_mode_gives_the_same_answer(references: Callable[..., Reference], name: str) -> None:
    schedule = program(references(0).folder, f"flux/{name}", text_length=16, steps=3)
    cases = [
        Case(inputs={"prompt": prompt, "height": 32, "width": 16 + 16 * (i % 2)}, seed=i)
        for i, prompt in enumerate(PROMPTS)
    ]
    rows = list(verify(schedule, cases, pruned=lambda output: None))
    assert len(rows) > 8
    assert [f"{row.mode}: {row.problem}" for row in rows if not row.holds] == []
