"""Checkpoints and recordings, made once per test session and seed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from tests.parity.qwen2_5_omni import reference
from tests.parity.qwen2_5_omni.reference import Case
from tests.parity.references import Recording

SEEDS = (0, 3)


class Reference:
    """A checkpoint folder, transformers' model of it, and what that model does in each case."""

    def __init__(self, folder: Path, seed: int) -> None:
        self.folder = folder
        self.seed = seed
        self.model: Any = reference.build(folder, seed)
        self.record = cache(self._record)

    def _record(self, name: str, voice: str = "Chelsie") -> Recording:
        return reference.record(self.model, self.case(name), seed=1234 + self.seed, voice=voice)

    def case(self, name: str) -> Case:
        """A named case; `text_eos` and `codes_eos` stop at an id that the greedy run is known to choose."""
        known = reference.cases()
        if name in known:
            return known[name]
        plain, text = self.record("text"), known["text"]
        if name == "text_eos":
            return replace(text, eos=_fresh(plain.text[0], 5))
        if name == "codes_eos":
            return replace(text, codec_end=_fresh(plain.codes[0], 5))
        raise KeyError(name)

    def speech(self, codes: list[int], *, voice: str, seed: int) -> Tensor:
        """What transformers' vocoder makes of codes when its noise is the first draw of a seed."""
        known = self.model.speaker_map[voice]
        torch.manual_seed(seed)
        with torch.no_grad():
            wave: Tensor = self.model.token2wav(
                torch.tensor([codes]), conditioning=known["cond"].float(), reference_mel=known["ref_mel"].float()
            )
        return wave.reshape(-1)


def _fresh(ids: list[int], start: int) -> int:
    """The first id from `start` on that did not occur before."""
    return next(value for i, value in enumerate(ids) if i >= start and value not in ids[:i])


@pytest.fixture(scope="session")
def references(tmp_path_factory: pytest.TempPathFactory) -> Callable[[int], Reference]:
    torch.set_num_threads(1)

    @cache
    def of_seed(seed: int) -> Reference:
        return Reference(tmp_path_factory.mktemp(f"qwen2_5_omni_{seed}"), seed)

    return of_seed


@pytest.fixture(scope="session", params=SEEDS, ids="seed{}".format)
def tiny(request: pytest.FixtureRequest, references: Callable[[int], Reference]) -> Reference:
    return references(request.param)
