"""A tiny acoustic model and a tiny streaming vocoder with the shapes of the real ones. Whole numbers, exact sums."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from omniflow.experts.null_text import ACOUSTIC_VOCAB
from omniflow.roles import DecoderRows, DecoderState
from omniflow_compiler.schedule import Cache, Expert

COND = 130
HOP = 300
RATE = 24_000
CONTEXT = 27


class NullAcoustic:
    """Role Encoder. `phonemes` int64 [P] -> `cond` f32 [F, 130], `f0` f32 [F]; two to six frames per phoneme."""

    def __init__(self, *, seed: int) -> None:
        generator = torch.Generator().manual_seed(seed)
        self.table = torch.randint(-3, 4, (ACOUSTIC_VOCAB, COND), generator=generator).float()

    def encode(self, rows: Sequence[Mapping[str, Tensor]]) -> list[Mapping[str, Tensor]]:
        lengths = [len(row["phonemes"]) for row in rows]
        ids = pad_sequence([row["phonemes"] for row in rows], batch_first=True, padding_value=-1)
        x = self.table[ids.clamp(min=0)] * (ids >= 0)[..., None]
        around = (
            x + 2 * torch.nn.functional.pad(x, (0, 0, 1, 0))[:, :-1] + torch.nn.functional.pad(x, (0, 0, 0, 1))[:, 1:]
        )
        results: list[Mapping[str, Tensor]] = []
        for row, features, n in zip(rows, around, lengths, strict=True):
            frames = torch.repeat_interleave(torch.arange(n), 2 + row["phonemes"] % 5)
            cond = features[frames]
            results.append({"cond": cond, "f0": 80 + (cond[:, 0].abs() * 16)})
        return results


@dataclass(slots=True, kw_only=True, eq=False)
class NullVoice(DecoderState):
    """phase: where the pulse is, modulo the rate; tail: the last frame's samples [HOP], which wait for the next."""

    generator: torch.Generator
    phase: int = 0
    tail: Tensor | None = None


class NullVocoder:
    """Role StreamDecoder. `cond` [left + new + right, 130] and `f0` [new] -> samples at 24 kHz, 300 per frame.

    Loudness looks 27 frames to each side; the pulse runs on from chunk to chunk; one frame is held back until the next.
    """

    def open(self, *, generator: torch.Generator) -> NullVoice:
        return NullVoice(generator=generator)

    def decode(self, rows: Sequence[DecoderRows]) -> list[Tensor]:
        cond = pad_sequence([row.frames["cond"] for row in rows], batch_first=True).sum(-1)
        padded = torch.nn.functional.pad(cond, (CONTEXT, CONTEXT))
        loud = padded.unfold(1, 2 * CONTEXT + 1, 1).sum(-1) % 64
        return [self._row(row, loud[i, row.left : row.left + row.new]) for i, row in enumerate(rows)]

    @staticmethod
    def _row(row: DecoderRows, loud: Tensor) -> Tensor:
        state = row.state
        assert isinstance(state, NullVoice)
        steps = row.frames["f0"].long().repeat_interleave(HOP).cumsum(0) + state.phase
        noise = torch.randint(-4, 5, (row.new * HOP,), generator=state.generator)
        pulse = (steps % RATE) // 256 - RATE // 512 + noise
        samples = pulse.float() * (loud.repeat_interleave(HOP) + 1) * 2.0**-13
        whole = samples if state.tail is None else torch.cat([state.tail, samples])
        state.phase = int(steps[-1]) % RATE if row.new else state.phase
        state.num_frames += row.new
        ready = len(whole) if row.is_last else max(len(whole) - HOP, 0)
        state.tail = whole[ready:]
        return whole[:ready]


def load_acoustic(spec: Expert, cache: Cache | None) -> NullAcoustic:
    """Attribute `seed`."""
    del cache
    return NullAcoustic(seed=int(spec.attributes.get("seed", 13)))


def load_vocoder(spec: Expert, cache: Cache | None) -> NullVocoder:
    """Has no attributes."""
    del spec, cache
    return NullVocoder()
