"""Checkpoints, made once per test session."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import torch

from tests.parity.wan import reference


class Reference:
    """A folder and diffusers' pipeline over it."""

    def __init__(self, folder: Path, seed: int, **settings: Any) -> None:
        self.folder = folder
        self.pipeline = reference.build(folder, seed, **settings)


@pytest.fixture(scope="session")
def references(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Reference]:
    torch.set_num_threads(1)

    @cache
    def make(seed: int = 0, **settings: Any) -> Reference:
        return Reference(tmp_path_factory.mktemp("wan"), seed, **settings)

    return make
