"""Checkpoints, made once per test session."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest
import torch

from tests.parity.cosmos3 import reference


class Reference:
    """A folder, diffusers' pipeline over it, and transformers' model of its understanding experts."""

    def __init__(self, folder: Path, seed: int) -> None:
        self.folder = folder
        self.pipeline, self.writer = reference.build(folder, seed)


@pytest.fixture(scope="session")
def references(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Reference]:
    torch.set_num_threads(1)

    @cache
    def make(seed: int = 0) -> Reference:
        return Reference(tmp_path_factory.mktemp("cosmos3"), seed)

    return make
