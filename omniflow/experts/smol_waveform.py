"""From spectral frames to samples, piece by piece: hibari's pulse train, filters and overlap-add with their memory.

A frame is 12.5 ms (300 samples). Its spectrum is `exp(lh) e^(i pi tanh(theta)) S + exp(ln) Z + exp(lr) e^(i phi)`
with S the windowed spectrum of a band-limited pulse train at the pitch, and Z noise (hibari-tts 0.2.1, dsp.py). The
window reaches two frames to each side: samples come two frames after their spectrum, and that two after its pitch.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import torch
from torch import Tensor

from omniflow.roles import DecoderState

SAMPLE_RATE = 24000
HOP = 300
FFT = 1200
OVERLAP = FFT // HOP
HALF = FFT // 2
BINS = FFT // 2 + 1
NUM_PARTS = 5
VOICED_HERTZ = 40.0
TOP_HERTZ = 11000.0
MAX_LOG_GAIN = 7.0


def _nothing() -> Tensor:
    return torch.zeros(0)


@dataclass(slots=True, kw_only=True, eq=False)
class WaveState(DecoderState):
    """What one item carries from chunk to chunk."""

    generator: torch.Generator
    pitch: Tensor = field(default_factory=_nothing)  # [<= 2]: the frame before the next to be pulsed, and that one
    phase: float = 0.0  # of the pulse train, in turns
    pulses: Tensor = field(default_factory=_nothing)  # from the first sample that the next window needs
    is_padded: bool = False  # whether `pulses` began with its mirror image
    parts: Tensor = field(default_factory=lambda: torch.zeros(0, NUM_PARTS * BINS))  # frames that wait for a window
    num_rendered: int = 0  # frames through the inverse transform
    tails: Tensor = field(default_factory=lambda: torch.zeros(2, OVERLAP - 1, HOP))  # signal and window mass to come


def take_windows(state: WaveState, pitch: Tensor, parts: Tensor, *, is_last: bool) -> tuple[Tensor, Tensor]:
    """Adds n frames (pitch: [n] hertz, parts: [n, 3005]) and takes the complete ones: windows [r, 1200], parts."""
    _extend_pulses(state, pitch, is_last=is_last)
    state.parts = torch.cat([state.parts.to(parts), parts])
    ready = 0 if not state.is_padded else max(0, (len(state.pulses) - FFT) // HOP + 1)
    ready = min(ready, len(state.parts))
    if ready == 0:
        return state.pulses.new_zeros(0, FFT), state.parts[:0]
    windows = state.pulses.unfold(0, FFT, HOP)[:ready]
    taken = state.parts[:ready]
    state.pulses, state.parts = state.pulses[ready * HOP :], state.parts[ready:]
    return windows, taken


def _extend_pulses(state: WaveState, pitch: Tensor, *, is_last: bool) -> None:
    """Pulses of every frame whose right neighbour is known; mirrored at the item's two ends as a centred STFT does."""
    curve = torch.cat([state.pitch.to(pitch), pitch])
    if state.num_frames == 0:
        curve = torch.cat([curve[:1], curve])
    if is_last:
        curve = torch.cat([curve, curve[-1:]])
    state.num_frames += len(pitch)
    state.pitch = curve[-2:]
    if len(curve) > 2:
        new, state.phase = _pulse_train(curve, state.phase)
        state.pulses = torch.cat([state.pulses.to(new), new])
    if not state.is_padded and (len(state.pulses) > HALF or (is_last and len(state.pulses) > 0)):
        state.pulses = _mirrored(state.pulses, HALF, HALF if is_last else 0)
        state.is_padded = True
    elif is_last and state.is_padded:
        state.pulses = _mirrored(state.pulses, 0, HALF)


def _pulse_train(curve: Tensor, phase: float) -> tuple[Tensor, float]:
    """[(n - 2) * 300] samples for the inner frames of curve [n], every harmonic below 11 kHz at unit amplitude.

    Dirichlet kernel: the sum of cos(h t) for h = 1..H is sin((H + 1/2) t) / (2 sin(t / 2)) - 1/2; unvoiced is silent.
    """
    hertz = _per_sample(curve)
    voiced = hertz > VOICED_HERTZ
    hertz = hertz.clamp(min=VOICED_HERTZ)
    turns = phase + hertz.double().cumsum(0) / SAMPLE_RATE
    angle = (2 * math.pi * (turns % 1.0)).float()
    harmonics = torch.floor(TOP_HERTZ / hertz) + 0.5
    below = 2 * torch.sin(angle * 0.5)
    at_peak = below.abs() <= 2e-3
    kernel = torch.sin(harmonics * angle) / torch.where(at_peak, 1.0, below)
    kernel = torch.where(at_peak, harmonics, kernel) - 0.5
    return torch.where(voiced, kernel, 0.0), float(turns[-1] % 1.0)


def _per_sample(curve: Tensor) -> Tensor:
    """Linear between frame centres: a frame's first half leans on the frame before it, its second on the one after."""
    share = ((torch.arange(HOP, device=curve.device) + 0.5) / HOP - 0.5) % 1.0
    rising, falling = share.split(HOP // 2)
    before, here, after = curve[:-2, None], curve[1:-1, None], curve[2:, None]
    first = before * (1 - rising) + here * rising
    second = here * (1 - falling) + after * falling
    return torch.cat([first, second], dim=1).flatten()


def _mirrored(x: Tensor, left: int, right: int) -> Tensor:
    """x with `left` and `right` samples reflected about its ends, however short it is."""
    period = 2 * (len(x) - 1)
    index = torch.arange(-left, len(x) + right, device=x.device).abs() % period
    return x[torch.where(index < len(x), index, period - index)]


def frame_noise(generator: torch.Generator, num_frames: int) -> Tensor:
    """[r, 2, 601] standard normal, one draw per frame, so that it does not matter how frames fall into chunks."""
    draws = torch.empty(num_frames, 2, BINS, device=generator.device)
    for draw in draws:
        draw.normal_(generator=generator)
    return draws


def render(windows: Tensor, parts: Tensor, noise: Tensor) -> Tensor:
    """Windowed frames [r, 1200] in time, of windows [r, 1200], parts [r, 3005] and noise [r, 2, 601]."""
    if len(windows) == 0:
        return windows  # FFT libraries refuse an empty batch
    log_harmonic, theta, log_noise, log_free, phi = parts.unflatten(-1, (NUM_PARTS, BINS)).unbind(1)
    window = _window(windows)
    source = torch.fft.rfft(windows * window) / (FFT / 4)
    harmonic = torch.polar(_gain(log_harmonic), math.pi * torch.tanh(theta)) * source
    shaped = _gain(log_noise) * torch.complex(noise[:, 0], noise[:, 1])
    free = torch.polar(_gain(log_free), phi)
    frames: Tensor = torch.fft.irfft(harmonic + shaped + free, n=FFT) * window
    return frames


def _gain(log_gain: Tensor) -> Tensor:
    return log_gain.clamp(max=MAX_LOG_GAIN).exp()


def _window(like: Tensor) -> Tensor:
    return torch.hann_window(FFT, dtype=like.dtype, device=like.device)


def overlap_add(state: WaveState, frames: Tensor, *, is_last: bool) -> Tensor:
    """Samples that no later frame can change: two hops behind `frames` [r, 1200], or up to the end."""
    mass = _window(frames).square().expand_as(frames)
    blocks = torch.stack([frames, mass]).unflatten(-1, (OVERLAP, HOP))
    count = len(frames)
    total = frames.new_zeros(2, count + OVERLAP - 1, HOP)
    total[:, : OVERLAP - 1] += state.tails.to(frames)
    for k in range(OVERLAP):
        total[:, k : k + count] += blocks[:, :, k]
    lead = HALF // HOP  # hops before the first sample, and after the last, that centring adds
    skipped = max(0, lead - state.num_rendered)
    state.num_rendered += count
    state.tails = total[:, count:]
    signal, weight = total[:, : count + lead if is_last else count]
    samples: Tensor = (signal / weight.clamp(min=1e-11))[skipped:].flatten()
    return samples
