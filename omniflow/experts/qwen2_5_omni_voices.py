"""The voices of a Qwen2.5-Omni checkpoint (`spk_dict.pt`): a token for the talker, a vector and a clip for the flow."""

from __future__ import annotations

import pickle
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from omniflow.experts.lean import CheckpointError

FILE = "spk_dict.pt"
MAX_BYTES = 256 * 1024 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class Voice:
    """token: int64 [1], the text id that names it to the talker; vector: float32 [S]; reference: mel [R, mels]."""

    token: Tensor
    vector: Tensor
    reference: Tensor


class Voices:
    """Role Voices: what a checkpoint knows of each voice, by name."""

    def __init__(self, voices: Mapping[str, Voice]) -> None:
        self._voices = dict(voices)

    def voice(self, name: str) -> Voice:
        """Errors: ValueError naming the voices there are."""
        if name not in self._voices:
            raise ValueError(f"there is no voice {name!r}; this checkpoint has {', '.join(self._voices) or 'none'}")
        return self._voices[name]


def load_voices(folder: Path, *, device: torch.device) -> Voices:
    """Reads tensors and numbers only, never code. Errors: CheckpointError naming the file and the voice."""
    path = folder / FILE
    try:
        if path.stat().st_size > MAX_BYTES:
            raise CheckpointError(f"{path}: larger than {MAX_BYTES} bytes; this is no list of voices")
        found = torch.load(path, map_location="cpu", weights_only=True)
    except (OSError, RuntimeError, EOFError, pickle.UnpicklingError) as error:
        reason = " ".join(str(error).split()).split(". ")[0]
        raise CheckpointError(f"{path}: cannot be read as a list of voices: {reason}") from None
    if not isinstance(found, dict) or not found:
        raise CheckpointError(f"{path}: expected voices by name")
    return Voices({str(name): _voice(name, entry, path, device) for name, entry in found.items()})


def _voice(name: object, entry: object, path: Path, device: torch.device) -> Voice:
    if not isinstance(entry, dict):
        raise CheckpointError(f"{path}: voice {name!r} is not a table")
    token, vector, reference = (entry.get(key) for key in ("bos_token", "cond", "ref_mel"))
    is_id = isinstance(token, int) and token >= 0
    if not is_id or not isinstance(vector, Tensor) or not isinstance(reference, Tensor) or reference.ndim < 2:
        raise CheckpointError(f"{path}: voice {name!r} needs bos_token (an id), cond and ref_mel (tensors)")
    return Voice(
        token=torch.tensor([token], device=device),
        vector=vector.float().flatten().to(device),
        reference=reference.float().flatten(0, -2).to(device),
    )
