"""What turns Cosmos 3's latents into frames and sound, and its tokenizer."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from omniflow.experts.hf_folder import DIFFUSERS, diffusers_module, dtype_of, fill, folder_of, read_config
from omniflow.experts.hf_rows import decode_rows
from omniflow.experts.hf_text import HfTokenizer, open_tokenizer
from omniflow.experts.lean import CheckpointError
from omniflow.experts.wan_vae import WanDecoder, open_decoder
from omniflow.roles import DecoderRows, DecoderState
from omniflow_compiler.schedule import Cache, Expert

PIPELINE = "Cosmos3OmniPipeline"
END_OF_TURN = "<|im_end|>"


class SoundDecoder:
    """Role StreamDecoder. Latent frames [S, D] to samples [hop * S, channels]; exact for a clip decoded as a whole."""

    def __init__(self, model: Any, *, spec: Expert) -> None:
        self._model = model
        self.dtype, self.device = dtype_of(spec), torch.device(spec.device)
        self.hop = int(model._hop_size)

    def open(self, *, generator: torch.Generator) -> DecoderState:
        """Draws nothing and remembers nothing."""
        del generator
        return DecoderState()

    @torch.inference_mode()
    def decode(self, rows: Sequence[DecoderRows]) -> list[Tensor]:
        """One forward for rows of one length; context is decoded and cut off."""
        frames = torch.stack([next(iter(row.frames.values())).T for row in rows]).to(self.device, self.dtype)
        sound = decode_rows(frames, self._model.decode)
        found = []
        for row, wave in zip(rows, sound, strict=True):
            row.state.num_frames += row.new
            found.append(wave[:, row.left * self.hop : (row.left + row.new) * self.hop].T.float())
        return found


def load_vae(spec: Expert, _cache: Cache | None) -> WanDecoder:
    """Wan's autoencoder from `vae/`; the encoder stays on disk."""
    return open_decoder(folder_of(spec, PIPELINE) / "vae", spec)


def load_sound(spec: Expert, _cache: Cache | None) -> SoundDecoder:
    """From `sound_tokenizer/`; the encoder stays on disk."""
    from diffusers import Cosmos3AVAEAudioTokenizer

    folder = folder_of(spec, PIPELINE) / "sound_tokenizer"
    config = read_config(folder, key="_class_name", kind="Cosmos3AVAEAudioTokenizer")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)  # of the original's way to normalize weights
        hollow = diffusers_module(folder, Cosmos3AVAEAudioTokenizer, {**config, "encoder_enabled": False})
    module = fill(hollow, folder, DIFFUSERS, spec, others=("encoder.",))
    return SoundDecoder(module.to(torch.device(spec.device)), spec=spec)


def load_tokenizer(spec: Expert, _cache: Cache | None) -> HfTokenizer:
    """From `text_tokenizer/`. Errors: CheckpointError when a turn does not end as the compiler was told."""
    folder = folder_of(spec, PIPELINE) / "text_tokenizer"
    tokenizer = open_tokenizer(folder)
    end = tokenizer.written(tokenizer.stop_ids)
    if end != END_OF_TURN:
        raise CheckpointError(f"{folder}: the end of a turn is {end!r}, this expert knows {END_OF_TURN!r}")
    return tokenizer
