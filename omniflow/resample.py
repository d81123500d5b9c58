"""Sound at another rate: one windowed sinc per phase of the ratio, as a convolution."""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import Tensor

ZEROS = 16  # crossings of the sinc on each side
ROLLOFF = 0.95  # of the lower Nyquist frequency


def resample(samples: Tensor, rate: int, wanted: int) -> Tensor:
    """float32 [..., S] at `rate` a second as [..., ceil(S * wanted / rate)] at `wanted`.

    Hann-windowed band-limited interpolation (Smith, Digital Audio Resampling); silence lies around the clip.
    """
    if rate == wanted or not samples.shape[-1]:
        return samples
    common = math.gcd(rate, wanted)
    down, up = rate // common, wanted // common
    kernel, reach = _kernel(down, up)
    length = -(-samples.shape[-1] * up // down)
    flat = F.pad(samples.reshape(-1, 1, samples.shape[-1]), (reach, reach + down))
    found = F.conv1d(flat, kernel.to(samples)[:, None], stride=down)
    return found.transpose(1, 2).reshape(*samples.shape[:-1], -1)[..., :length]


def _kernel(down: int, up: int) -> tuple[Tensor, int]:
    """Filters [up, taps], one for each place of an output sample between input samples, and their reach."""
    cutoff = ROLLOFF * min(down, up)
    reach = math.ceil(ZEROS * down / cutoff)
    at = torch.arange(-reach, reach + down, dtype=torch.float64) / down
    phases = -torch.arange(up, dtype=torch.float64)[:, None] / up
    t = ((phases + at) * cutoff).clamp(-ZEROS, ZEROS)
    window = torch.cos(t * math.pi / ZEROS / 2) ** 2
    return (torch.sinc(t) * window * cutoff / down).float(), reach
