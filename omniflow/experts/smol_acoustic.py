"""hibari's acoustic model: phoneme ids to one conditioning vector and one pitch per 12.5 ms frame.

Published as ONNX in hibari-tts 0.2.1: a text encoder, and a prosody model that predicts each phoneme's length in
frames of 25 ms and, two per such frame, pitch and energy.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.utils.rnn import pad_sequence

from omniflow.experts.smol_convnext import ConvNeXt, convolve, mask_of
from omniflow.experts.smol_tensors import tensors_under

NUM_PHONEMES = 178
CONDITION = 130  # 128 of text, pitch, energy
TEXT_WIDTH, TEXT_HIDDEN = 128, 256
PROSODY_WIDTH, PROSODY_HIDDEN = 192, 384
FRAMES_PER_STEP = 2
MAX_PHONEMES = 2000
HERTZ = 100.0  # unit of the pitch head


class LoopedAttention(nn.Module):
    """One pre-norm transformer layer, applied `loops` times with the same weights."""

    def __init__(self, width: int, hidden: int, *, heads: int, loops: int) -> None:
        super().__init__()
        self.qkv = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)
        self.norm_in, self.norm_out = nn.LayerNorm(width), nn.LayerNorm(width)
        self.expand, self.contract = nn.Linear(width, hidden), nn.Linear(hidden, width)
        self.heads, self.loops = heads, loops

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        visible = mask[:, None, None, :, 0] > 0
        for _ in range(self.loops):
            q, k, v = self.qkv(self.norm_in(x)).unflatten(-1, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
            attended = F.scaled_dot_product_attention(q, k, v, attn_mask=visible)
            x = x + self.out(attended.transpose(1, 2).flatten(2))
            x = x + self.contract(F.gelu(self.expand(self.norm_out(x))))
        return x


class TextEncoder(nn.Module):
    """ids: [B, L] -> [B, L, width]."""

    def __init__(self, width: int, hidden: int, *, heads: int, loops: int) -> None:
        super().__init__()
        self.embedding = nn.Embedding(NUM_PHONEMES, width)
        self.blocks = nn.ModuleList(ConvNeXt(width, 5, hidden) for _ in range(2))
        self.attention = LoopedAttention(width, hidden, heads=heads, loops=loops)
        self.norm = nn.LayerNorm(width)

    def forward(self, ids: Tensor, mask: Tensor) -> Tensor:
        x = self.embedding(ids) * mask
        for block in self.blocks:
            x = block(x, mask)
        encoded: Tensor = self.norm(self.attention(x, mask)) * mask
        return encoded


class Prosody(nn.Module):
    """Lengths from the phonemes, then pitch and energy along the stretched phonemes."""

    def __init__(self, *, heads: int, loops: int, dilations: Sequence[int]) -> None:
        super().__init__()
        width = PROSODY_WIDTH
        self.text = TextEncoder(width, PROSODY_HIDDEN, heads=heads, loops=loops)
        self.duration_in = nn.Conv1d(width, width, 3, padding=1)
        self.duration_out = nn.Conv1d(width, 1, 1)
        self.entry = nn.Conv1d(width, width, 1)
        self.blocks = nn.ModuleList(ConvNeXt(width, 7, PROSODY_HIDDEN, dilation=d) for d in dilations)
        self.head = nn.Conv1d(width, 2 * FRAMES_PER_STEP, 1)

    def durations(self, text: Tensor, mask: Tensor, speed: float) -> Tensor:
        """int64 [B, L] steps of 25 ms per phoneme, at least one each; none for padding."""
        log_steps = convolve(self.duration_out, F.gelu(convolve(self.duration_in, text)))
        steps = torch.round(torch.expm1(log_steps.float()) / speed).clamp(min=1)
        return (steps * mask)[..., 0].long()

    def contour(self, stretched: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
        """Pitch in hertz and energy, [B, 2T] each, of stretched: [B, T, width]."""
        x = convolve(self.entry, stretched) * mask
        for block in self.blocks:
            x = block(x, mask)
        pitch, energy = convolve(self.head, x).chunk(2, dim=-1)
        return pitch.flatten(1) * HERTZ, energy.flatten(1)


class SmolAcoustic(nn.Module):
    """Role Encoder (omniflow.roles). speed: 1.0 is the voice's own pace, 2.0 twice as fast."""

    def __init__(self, *, heads: int, text_loops: int, prosody_loops: int, dilations: Sequence[int]) -> None:
        super().__init__()
        self.text = TextEncoder(TEXT_WIDTH, TEXT_HIDDEN, heads=heads, loops=text_loops)
        self.prosody = Prosody(heads=heads, loops=prosody_loops, dilations=dilations)
        self.speed = 1.0

    @torch.inference_mode()
    def encode(self, rows: Sequence[Mapping[str, Tensor]]) -> list[Mapping[str, Tensor]]:
        """{"phonemes": int64 [n]} to {"cond": float32 [F, 130], "f0": float32 [F], hertz} per row."""
        device = self.text.embedding.weight.device
        sources = [_checked(row["phonemes"]).to(device) for row in rows]
        ids = pad_sequence(sources, batch_first=True)
        mask = mask_of([len(source) for source in sources], self.text.embedding.weight)
        sounds = self.prosody.text(ids, mask)
        durations = self.prosody.durations(sounds, mask, self.speed)
        lengths = durations.sum(1).tolist()
        place = _phoneme_of_step(durations, max(lengths))
        steps = mask_of(lengths, sounds)
        pitch, energy = self.prosody.contour(_stretch(sounds, place) * steps, steps)
        text = _stretch(self.text(ids, mask), place).repeat_interleave(FRAMES_PER_STEP, dim=1)
        cond = torch.cat([text, torch.log1p(F.relu(pitch))[..., None] / 5, energy[..., None]], dim=-1)
        frames = [FRAMES_PER_STEP * n for n in lengths]
        return [{"cond": c[:n].float(), "f0": p[:n].float()} for c, p, n in zip(cond, pitch, frames, strict=True)]


def _checked(ids: Tensor) -> Tensor:
    if ids.ndim != 1 or not 0 < len(ids) <= MAX_PHONEMES:
        raise ValueError(f"the voice reads 1 to {MAX_PHONEMES} phonemes at once, got shape {list(ids.shape)}")
    if int(ids.min()) < 0 or int(ids.max()) >= NUM_PHONEMES:
        raise ValueError(f"phoneme ids must be 0 to {NUM_PHONEMES - 1}")
    return ids


def _phoneme_of_step(durations: Tensor, num_steps: int) -> Tensor:
    """int64 [B, T]: which phoneme a step belongs to; the last one past a row's end."""
    ends = durations.cumsum(1)
    steps = torch.arange(num_steps, device=durations.device).expand(len(durations), -1)
    return torch.searchsorted(ends, steps.contiguous(), right=True).clamp(max=durations.shape[1] - 1)


def _stretch(x: Tensor, place: Tensor) -> Tensor:
    return x.gather(1, place[..., None].expand(-1, -1, x.shape[-1]))


def load(folder: Path, *, dtype: torch.dtype, device: torch.device) -> SmolAcoustic:
    """Reads config.json and the `acoustic.` tensors of model.safetensors."""
    config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    acoustic = SmolAcoustic(
        heads=config["text_heads"],
        text_loops=config["text_loops"],
        prosody_loops=config["prosody_loops"],
        dilations=config["prosody_dilations"],
    )
    acoustic.load_state_dict(tensors_under("acoustic.", folder / "model.safetensors"))
    return acoustic.to(device=device, dtype=dtype).eval()
