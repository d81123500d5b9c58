"""The decoder of Wan's causal autoencoder: latents as they are denoised to frames."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from omniflow.experts.hf_folder import DIFFUSERS, diffusers_module, dtype_of, fill, folder_of, read_config
from omniflow.experts.hf_rows import decode_rows
from omniflow_compiler.schedule import Cache, Expert


class WanDecoder:
    """Role TileDecoder. Latents [C, T, h, w], normalized as the transformer knows them, to [F, s * h, s * w, 3].

    The model's own cache of frames lives within one call.
    """

    def __init__(self, model: nn.Module, *, spec: Expert) -> None:
        settings: Any = model.config
        self._model: Any = model
        self.dtype, self.device = dtype_of(spec), torch.device(spec.device)
        self.scale = int(settings.scale_factor_spatial)
        shape = (1, -1, 1, 1, 1)
        self._mean = torch.tensor(settings.latents_mean).view(shape).to(self.device, self.dtype)
        self._inverse = (1.0 / torch.tensor(settings.latents_std).view(shape)).to(self.device, self.dtype)

    @torch.inference_mode()
    def decode_tiles(self, tiles: Sequence[Tensor]) -> list[Tensor]:
        """Pixels are in [0, 1]."""
        latents = torch.stack(list(tiles)).to(self.device, self.dtype) / self._inverse + self._mean
        frames = decode_rows(latents, lambda rows: self._model.decode(rows, return_dict=False)[0])
        return list((frames / 2 + 0.5).clamp(0, 1).permute(0, 2, 3, 4, 1).float())


def load_vae(spec: Expert, _cache: Cache | None) -> WanDecoder:
    """From `vae/` of a Wan folder; the encoder stays on disk."""
    return open_decoder(folder_of(spec, "WanPipeline") / "vae", spec)


def open_decoder(folder: Path, spec: Expert) -> WanDecoder:
    """The decoder of a folder with an AutoencoderKLWan."""
    from diffusers import AutoencoderKLWan

    config = read_config(folder, key="_class_name", kind="AutoencoderKLWan")
    module: Any = diffusers_module(folder, AutoencoderKLWan, config)
    fill(module, folder, DIFFUSERS, spec, parts=("decoder.", "post_quant_conv."))
    module.encoder, module.quant_conv = None, None
    return WanDecoder(module.to(torch.device(spec.device)), spec=spec)
