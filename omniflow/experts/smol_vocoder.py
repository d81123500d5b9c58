"""hibari's vocoder: conditioning frames to five spectral parts (ConvNeXt), and those to 24 kHz samples, in chunks.

Published as ONNX in hibari-tts 0.2.1. The network sees 27 frames to each side (an entry convolution and eight blocks of
kernel 7), so a chunk with that much context decodes to what the whole utterance would.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pad_sequence

from omniflow.experts.smol_acoustic import CONDITION
from omniflow.experts.smol_convnext import ConvNeXt, convolve, mask_of
from omniflow.experts.smol_tensors import tensors_under
from omniflow.experts.smol_waveform import (
    BINS,
    HOP,
    NUM_PARTS,
    WaveState,
    frame_noise,
    overlap_add,
    render,
    take_windows,
)
from omniflow.roles import DecoderRows, DecoderState

WIDTH, HIDDEN, DEPTH, KERNEL = 256, 768, 8, 7
CONTEXT = (DEPTH + 1) * (KERNEL // 2)


class SmolVocoder(nn.Module):
    """Role StreamDecoder (omniflow.roles). Frames: `cond` float [n, 130], `f0` float [n] in hertz."""

    hop = HOP
    left_context = right_context = CONTEXT

    def __init__(self) -> None:
        super().__init__()
        self.entry = nn.Conv1d(CONDITION, WIDTH, KERNEL, padding=KERNEL // 2)
        self.blocks = nn.ModuleList(ConvNeXt(WIDTH, KERNEL, HIDDEN) for _ in range(DEPTH))
        self.norm = nn.LayerNorm(WIDTH)
        self.head = nn.Linear(WIDTH, NUM_PARTS * BINS)

    def open(self, *, generator: torch.Generator) -> WaveState:
        return WaveState(generator=generator)

    @torch.inference_mode()
    def decode(self, rows: Sequence[DecoderRows]) -> list[Tensor]:
        """Float32 samples [S] per row, about four frames behind its frames until `is_last` drains them."""
        states = [_wave(row.state) for row in rows]
        taken = [
            take_windows(state, _pitch(row).to(parts), parts, is_last=row.is_last)
            for state, row, parts in zip(states, rows, self.parts(rows), strict=True)
        ]
        counts = [len(windows) for windows, _ in taken]
        noise = [frame_noise(s.generator, n) for s, n in zip(states, counts, strict=True)]
        windows, parts = (torch.cat(column) for column in zip(*taken, strict=True))
        frames = render(windows, parts, torch.cat([n.to(parts) for n in noise]))
        return [
            overlap_add(state, own, is_last=row.is_last)
            for state, row, own in zip(states, rows, frames.split(counts), strict=True)
        ]

    def parts(self, rows: Sequence[DecoderRows]) -> list[Tensor]:
        """Float32 [new, 3005] per row. The head runs on new frames only."""
        weight = self.head.weight
        conds = [_checked(row).to(weight) for row in rows]
        lengths = [len(cond) for cond in conds]
        if max(lengths) == 0:
            return [weight.new_zeros(0, NUM_PARTS * BINS, dtype=torch.float32) for _ in rows]
        mask = mask_of(lengths, weight)
        x = convolve(self.entry, pad_sequence(conds, batch_first=True)) * mask
        for block in self.blocks:
            x = block(x, mask)
        new = [own[row.left : row.left + row.new] for own, row in zip(x, rows, strict=True)]
        parts: Tensor = self.head(self.norm(torch.cat(new))).float()
        return list(parts.split([row.new for row in rows]))


def _wave(state: DecoderState) -> WaveState:
    assert isinstance(state, WaveState)
    return state


def _checked(row: DecoderRows) -> Tensor:
    cond = row.frames["cond"]
    if cond.shape != (row.left + row.new + row.right, CONDITION):
        wanted = f"[{row.left} + {row.new} + {row.right}, {CONDITION}]"
        raise ValueError(f"the vocoder's 'cond' must have shape {wanted}, got {list(cond.shape)}")
    return cond


def _pitch(row: DecoderRows) -> Tensor:
    """Pitch of the new frames; context rows are dropped where the edge sends them."""
    pitch = row.frames["f0"]
    if pitch.shape == (row.left + row.new + row.right,):
        return pitch[row.left : row.left + row.new]
    if pitch.shape == (row.new,):
        return pitch
    raise ValueError(f"the vocoder's 'f0' must have shape [{row.new}], got {list(pitch.shape)}")


def load(folder: Path, *, dtype: torch.dtype, device: torch.device) -> SmolVocoder:
    """Reads the `vocoder.` tensors of model.safetensors."""
    vocoder = SmolVocoder()
    vocoder.load_state_dict(tensors_under("vocoder.", folder / "model.safetensors"))
    return vocoder.to(device=device, dtype=dtype).eval()
