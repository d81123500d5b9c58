"""Checkpoints and recordings, made once per test session and seed."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import pytest
import torch

from tests.parity.musicgen import reference
from tests.parity.musicgen.reference import Case, Recording
from tests.parity.references import SMALLEST, Sizes

SEEDS = (0, 4)


class Reference:
    """A checkpoint folder, transformers' model of it, and what that model does in each case."""

    def __init__(self, folder: Path, seed: int, sizes: Sizes = SMALLEST) -> None:
        self.folder = folder
        self.seed = seed
        self.model: Any = reference.build(folder, seed, sizes=sizes)
        reference.add_tokenizer(folder)
        self.run = cache(self._run)

    def record(self, name: str) -> Recording:
        return self.run(reference.cases()[name])

    def _run(self, case: Case) -> Recording:
        return reference.record(self.model, case, seed=77 + self.seed)


@pytest.fixture(scope="session", params=SEEDS, ids="seed{}".format)
def tiny(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Reference:
    torch.set_num_threads(1)
    return Reference(tmp_path_factory.mktemp(f"musicgen_{request.param}"), request.param)


@pytest.fixture(scope="session")
def stereo(tmp_path_factory: pytest.TempPathFactory) -> Reference:
    torch.set_num_threads(1)
    return Reference(tmp_path_factory.mktemp("musicgen_stereo"), 7, reference.STEREO)
