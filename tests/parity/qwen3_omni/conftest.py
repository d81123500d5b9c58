"""Checkpoints and recordings, made once per test session and seed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import torch

from tests.parity.qwen3_omni import reference
from tests.parity.qwen3_omni.reference import Case
from tests.parity.references import Recording

SEEDS = (0, 5)


class Reference:
    """A checkpoint folder, transformers' model of it, and what that model does in each case."""

    def __init__(self, folder: Path, seed: int) -> None:
        self.folder = folder
        self.seed = seed
        self.model: Any = reference.build(folder, seed)
        self.record = cache(self._record)
        self.run = cache(self._run)

    def _record(self, name: str, voice: str = "Ethan") -> Recording:
        return self.run(self.case(name), voice)

    def _run(self, case: Case, voice: str = "Ethan") -> Recording:
        return reference.record(self.model, case, seed=1234 + self.seed, voice=voice)

    def case(self, name: str) -> Case:
        """A named case; `text_eos` stops at an id that the greedy run is known to choose."""
        known = reference.cases()
        if name == "text_eos":
            ids = self.record("text").text[0]
            return replace(known["text"], eos=next(v for i, v in enumerate(ids) if i >= 2 and v not in ids[:i]))
        return known[name]


@pytest.fixture(scope="session")
def references(tmp_path_factory: pytest.TempPathFactory) -> Callable[[int], Reference]:
    torch.set_num_threads(1)

    @cache
    def of_seed(seed: int) -> Reference:
        return Reference(tmp_path_factory.mktemp(f"qwen3_omni_{seed}"), seed)

    return of_seed


@pytest.fixture(scope="session", params=SEEDS, ids="seed{}".format)
def tiny(request: pytest.FixtureRequest, references: Callable[[int], Reference]) -> Reference:
    return references(request.param)


@pytest.fixture(scope="session")
def talkative(references: Callable[[int], Reference]) -> Reference:
    """The checkpoint whose speech reaches its bound."""
    return references(0)
