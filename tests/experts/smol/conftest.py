"""The experts of the speech cascade, loaded once from the user's own cache."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from omniflow.experts import smol_acoustic, smol_lexicon, smol_talker, smol_tokenizer, smol_vocoder
from omniflow.weights import prepare

CPU = torch.device("cpu")


@pytest.fixture(scope="session")
def thinker_folder() -> Path:
    return prepare("smollm2-135m-instruct")


@pytest.fixture(scope="session")
def tokenizer(thinker_folder: Path) -> smol_tokenizer.SmolTokenizer:
    return smol_tokenizer.load(thinker_folder, dtype=torch.float32, device=CPU)


@pytest.fixture(scope="session")
def talker() -> smol_talker.SmolTalker:
    return smol_talker.load(prepare("g2p-bart-en-us"), dtype=torch.float32, device=CPU)


@pytest.fixture(scope="session")
def lexicon() -> smol_lexicon.SmolLexicon:
    return smol_lexicon.load(prepare("hibari"), dtype=torch.float32, device=CPU)


@pytest.fixture(scope="session")
def acoustic() -> smol_acoustic.SmolAcoustic:
    return smol_acoustic.load(prepare("hibari"), dtype=torch.float32, device=CPU)


@pytest.fixture(scope="session")
def vocoder() -> smol_vocoder.SmolVocoder:
    return smol_vocoder.load(prepare("hibari"), dtype=torch.float32, device=CPU)
