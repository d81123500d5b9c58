"""The decoder of FLUX's autoencoder: latents as they are denoised to pixels."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from omniflow.experts.hf_folder import DIFFUSERS, diffusers_module, dtype_of, fill, folder_of, read_config
from omniflow.experts.hf_rows import decode_rows
from omniflow_compiler.schedule import Cache, Expert


class KlDecoder:
    """Role TileDecoder. Latents [C, h, w], scaled as the transformer knows them, to [scale * h, scale * w, 3]."""

    def __init__(self, model: nn.Module, *, spec: Expert) -> None:
        settings: Any = model.config
        self._model: Any = model
        self._factor, self._shift = float(settings.scaling_factor), float(settings.shift_factor or 0.0)
        self.dtype, self.device = dtype_of(spec), torch.device(spec.device)
        self.scale = 2 ** (len(settings.block_out_channels) - 1)

    @torch.inference_mode()
    def decode_tiles(self, tiles: Sequence[Tensor]) -> list[Tensor]:
        """Pixels are in [0, 1]."""
        latents = torch.stack(list(tiles)).to(self.device, self.dtype) / self._factor + self._shift
        pixels = decode_rows(latents, lambda rows: self._model.decode(rows, return_dict=False)[0])
        return list((pixels / 2 + 0.5).clamp(0, 1).permute(0, 2, 3, 1).float())


def load_vae(spec: Expert, _cache: Cache | None) -> KlDecoder:
    """From `vae/`; the encoder stays on disk."""
    from diffusers import AutoencoderKL

    folder = folder_of(spec, "FluxPipeline") / "vae"
    config = read_config(folder, key="_class_name", kind="AutoencoderKL")
    module: Any = diffusers_module(folder, AutoencoderKL, config)
    fill(module, folder, DIFFUSERS, spec, parts=("decoder.", "post_quant_conv."))
    module.encoder, module.quant_conv = None, None
    return KlDecoder(module.to(torch.device(spec.device)), spec=spec)
