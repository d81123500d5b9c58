"""The speech judge: what a listener writes down of 24 kHz speech of any length."""

from __future__ import annotations

from functools import cache
from itertools import pairwise

import torch
from torch import Tensor

from tests.judge.whisper import RATE, WINDOW_SECONDS, Whisper, load_whisper

SPEECH_RATE = 24_000
_PAUSE = RATE // 5  # a cut falls into the quietest fifth of a second


def transcribe(samples: Tensor) -> str:
    """The words said in `samples`, float32 [S] at 24 kHz. Errors: FileNotFoundError without the recogniser's wheel."""
    pieces = split_at_silence(resample(samples, SPEECH_RATE, RATE), WINDOW_SECONDS * RATE)
    return " ".join(text for text in map(_recogniser().transcribe, pieces) if text)


def resample(samples: Tensor, source: int, target: int) -> Tensor:
    """`samples` [S] at another rate, [S * target / source]: exact for what both rates can carry, by the spectrum."""
    pad = source // 10  # the transform is circular: silence keeps the end from leaking into the beginning
    padded = torch.nn.functional.pad(samples, (pad, pad + -(len(samples) + 2 * pad) % source))
    size = len(padded) * target // source
    resampled = torch.fft.irfft(torch.fft.rfft(padded)[: size // 2 + 1], n=size) * (target / source)
    start = pad * target // source
    return resampled[start : start + len(samples) * target // source]


def split_at_silence(samples: Tensor, longest: int) -> list[Tensor]:
    """`samples` [S] in pieces of at most `longest`, cut where the second half of a piece is quietest."""
    cuts = [0]
    while len(samples) - cuts[-1] > longest:
        half = samples[cuts[-1] + longest // 2 : cuts[-1] + longest]
        loudness = half.square().unfold(0, _PAUSE, _PAUSE // 4).mean(-1)
        cuts.append(cuts[-1] + longest // 2 + int(loudness.argmin()) * (_PAUSE // 4) + _PAUSE // 2)
    return [samples[start:end] for start, end in pairwise([*cuts, len(samples)]) if end > start]


@cache
def _recogniser() -> Whisper:
    return load_whisper()
