"""`omniflow verify` of the family: every mode gives what each request gives alone."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from omniflow.verification.cases import Case
from omniflow.verification.verify import verify
from tests.parity.cosmos3.conftest import Reference
from tests.parity.diffusion import PROMPTS, program

pytestmark = pytest.mark.hf


@pytest.mark.parametrize("name", ["video", "film"])
def test_every_mode_gives_the_same_answer(references: Callable[..., Reference], name: str) -> None:
    schedule = program(
        references(0).folder, f"cosmos3/{name}", steps=2, cfg=3.0, **({"max_tokens": 6} if name == "film" else {})
    )
    cases = [
        Case(inputs={"prompt": prompt, "frames": 5, "height": 32, "width": 16 + 16 * (i % 2)}, seed=i)
        for i, prompt in enumerate(PROMPTS[:3])
    ]
    rows = list(verify(schedule, cases, pruned=lambda output: None))
    assert len(rows) > 8
    assert [f"{row.mode}: {row.problem}" for row in rows if not row.holds] == []
