"""Log-mel frames: those of WhisperFeatureExtractor for every length, and sounds that cannot be heard."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

from omniflow.spectrum import log_mel, mel_filters
from tests.parity import prepared

SECONDS = 2
SHAPE = {"window": 400, "hop": 160, "rate": 16000}
LENGTHS = (201, 319, 320, 4321, 16000, SECONDS * 16000 - 100, SECONDS * 16000)


def _sound(length: int) -> Tensor:
    """Noise whose loudest sample is the last one, so that frames behind the end matter."""
    sound = 0.3 * torch.randn(length, generator=torch.Generator().manual_seed(length))
    sound[-1] = 3.0
    return sound


@pytest.mark.hf
@pytest.mark.parametrize("bands", [12, 80, 128])
def test_frames_are_those_of_transformers_whatever_the_length(bands: int) -> None:
    settings = {"feature_size": bands, "hop_length": 160, "n_fft": 400, "chunk_length": SECONDS}
    for length in (1, 159, *LENGTHS):
        own = log_mel(_sound(length), bands=bands, silence=SECONDS * 16000, **SHAPE)
        assert own.shape == (bands, math.ceil(length / 160))
        torch.testing.assert_close(own, prepared.heard(_sound(length), settings, fills=True), atol=1e-6, rtol=0)
    for length in LENGTHS:
        own = log_mel(_sound(length), bands=bands, silence=0, **SHAPE)
        assert own.shape == (bands, length // 160)
        torch.testing.assert_close(own, prepared.heard(_sound(length), settings, fills=False), atol=1e-6, rtol=0)


def test_a_tone_is_loudest_in_the_band_around_its_pitch() -> None:
    time = torch.arange(16000) / 16000
    for hertz in (300.0, 1000.0, 5000.0):
        loudest = log_mel(torch.sin(2 * math.pi * hertz * time), bands=80, silence=0, **SHAPE)[:, 50].argmax()
        band = mel_filters(80, 201, 16000)[loudest]
        assert band[round(hertz / 40)] > 0.5 * band.max()


def test_bands_have_equal_area_and_overlap_by_halves() -> None:
    filters = mel_filters(40, 4001, 16000).double()
    areas = filters.sum(1) * 2.0  # hertz between two of the places
    torch.testing.assert_close(areas, torch.ones_like(areas), atol=1e-3, rtol=0)
    assert (filters[:-2] * filters[2:]).abs().max() == 0


@pytest.mark.parametrize(("length", "silence"), [(0, 16000), (200, 0), (0, 0)])
def test_a_sound_of_too_few_samples_says_how_many_are_needed(length: int, silence: int) -> None:
    with pytest.raises(
        ValueError, match=rf"a sound of {length} samples is too short; {1 if silence else 201} are needed"
    ):
        log_mel(torch.zeros(length), bands=12, silence=silence, **SHAPE)
