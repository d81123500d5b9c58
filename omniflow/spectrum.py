"""Log-mel frames of a sound, as Whisper reads them."""

from __future__ import annotations

from functools import lru_cache
from math import ceil

import torch
from torch import Tensor

TOP_HZ = 8000.0  # where the highest band ends, whatever the rate
FLOOR = 1e-10  # least power of a band
RANGE = 8.0  # powers of ten between the loudest and the quietest value


def log_mel(samples: Tensor, *, bands: int, window: int, hop: int, rate: int, silence: int) -> Tensor:
    """float32 [S] as [bands, F], a frame every `hop` samples, each looking at `window` samples around its place.

    silence: samples up to which the sound goes on in silence, so that F = ceil(S / hop); 0 mirrors its end instead,
    F = floor(S / hop). Source: `WhisperFeatureExtractor` of transformers, in float32.
    Errors: ValueError for a sound that is shorter than half a window and is not filled up.
    """
    count = len(samples)
    padded = samples
    if silence:
        heard = ceil((count + window) / hop) * hop  # frames behind are silent, and silence is never the loudest
        padded = torch.nn.functional.pad(samples, (0, max(min(heard, silence) - count, 0)))
    if not count or len(padded) <= window // 2:
        raise ValueError(f"a sound of {count} samples is too short; {1 if silence else window // 2 + 1} are needed")
    shape = torch.hann_window(window, dtype=torch.float32, device=samples.device)
    bins = torch.stft(padded.float(), window, hop, window=shape, return_complex=True)[:, :-1]
    power = mel_filters(bands, 1 + window // 2, rate).to(samples.device) @ (bins.abs() ** 2).contiguous()
    logs = power.clamp(min=FLOOR).log10()
    logs = torch.maximum(logs, logs.max() - RANGE)
    return ((logs + 4.0) / 4.0)[:, : ceil(count / hop)].contiguous()


@lru_cache(maxsize=8)
def mel_filters(bands: int, bins: int, rate: int) -> Tensor:
    """float32 [bands, bins]: triangles of equal area, even on Slaney's mel scale from 0 to 8 kHz.

    Source: M. Slaney, Auditory Toolbox (1998): linear below 1 kHz, 27 steps to a factor of 6.4 above.
    """
    top = _mel(torch.tensor(TOP_HZ, dtype=torch.float64))
    corners = _hertz(torch.linspace(0, float(top), bands + 2, dtype=torch.float64))
    at = torch.linspace(0, rate // 2, bins, dtype=torch.float64)
    left, middle, right = (corners[i : i + bands, None] for i in range(3))
    rising, falling = (at - left) / (middle - left), (right - at) / (right - middle)
    triangles = torch.minimum(rising, falling).clamp(min=0)
    return (triangles * 2.0 / (right - left)).float()


_KNEE_HZ, _KNEE_MEL = 1000.0, 15.0
_STEP = 27.0 / torch.tensor(6.4, dtype=torch.float64).log()


def _mel(hertz: Tensor) -> Tensor:
    above = _KNEE_MEL + (hertz.clamp(min=_KNEE_HZ) / _KNEE_HZ).log() * _STEP
    return torch.where(hertz < _KNEE_HZ, hertz * _KNEE_MEL / _KNEE_HZ, above)


def _hertz(mel: Tensor) -> Tensor:
    above = _KNEE_HZ * ((mel.clamp(min=_KNEE_MEL) - _KNEE_MEL) / _STEP).exp()
    return torch.where(mel < _KNEE_MEL, mel * _KNEE_HZ / _KNEE_MEL, above)
