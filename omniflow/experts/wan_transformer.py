"""Wan's transformer as a denoiser of clips: requests at different times and with different texts share a batch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from omniflow.experts.hf_folder import DIFFUSERS, diffusers_module, dtype_of, fill, folder_of, read_config, read_json
from omniflow.experts.hf_rows import by_shape, keep_rows_apart
from omniflow.experts.lean import CheckpointError
from omniflow.experts.packed import pack_feed_forward, pack_linears, packs
from omniflow.experts.pixels import ClipSize
from omniflow.experts.scheduler_config import check_scheduler
from omniflow.experts.wan_attention import WanAttention
from omniflow.roles import Latents
from omniflow_compiler.schedule import Cache, Expert

TRAIN_STEPS = 1000


class _Row(NamedTuple):
    latent: Tensor
    time: float
    condition: Tensor


class WanTransformer:
    """Role Denoiser. Latents are [C, T, H, W]. Conditions: `condition` [P, D], `frames`, `height`, `width`."""

    def __init__(self, model: nn.Module, *, channels: int, size: ClipSize, most: int, spec: Expert) -> None:
        self.channels = channels
        self.size = size
        self.most = most  # patches in time, and along each side of a frame
        self.dtype, self.device = dtype_of(spec), torch.device(spec.device)
        self._model = model

    def initial(self, conditions: Mapping[str, Any], *, generator: torch.Generator) -> Tensor:
        """Noise for the clip. Errors: ValueError for sizes that are none, or for which there are no positions."""
        shape = self.size.latent(conditions)
        patches = max(shape[0], *(side // self.size.patch for side in shape[1:]))
        if patches > self.most:
            raise ValueError(f"the clip has {patches} patches in a row, and the checkpoint knows {self.most} positions")
        return torch.randn(1, self.channels, *shape, generator=generator)[0].to(self.device)

    def sequence_length(self, latents: Latents) -> int:
        """Patches of a latent."""
        assert isinstance(latents, Tensor)
        frames, height, width = latents.shape[1:]
        return frames * (height // self.size.patch) * (width // self.size.patch)

    @torch.inference_mode()
    def velocity(
        self, latents: Sequence[Latents], times: Sequence[float], conditions: Sequence[Mapping[str, Any]]
    ) -> list[Tensor]:
        """One forward per shape of latent and length of text."""
        rows = [
            _Row(latent, time, known["condition"])
            for latent, time, known in zip(latents, times, conditions, strict=True)
            if isinstance(latent, Tensor)
        ]
        return by_shape(rows, lambda row: (row.latent.shape, row.condition.shape), self._run)

    def _run(self, rows: list[_Row]) -> list[Tensor]:
        steps = torch.tensor([(1.0 - row.time) * TRAIN_STEPS for row in rows], dtype=torch.float32)
        velocity = self._model(
            hidden_states=torch.stack([row.latent for row in rows]).to(self.dtype),
            timestep=steps.to(self.device),
            encoder_hidden_states=torch.stack([row.condition for row in rows]).to(self.device, self.dtype),
            return_dict=False,
        )[0]
        return list(-velocity.float())


def _quicken(model: Any) -> None:
    """Gives large blocks this package's attention, and GELU in the pass of the layer before it."""
    for block in model.blocks:
        if packs(block.attn1.to_q):
            block.attn1.set_processor(WanAttention())
            block.attn2.set_processor(WanAttention())
        pack_feed_forward(block.ffn)


def _sees_vectors(name: str) -> bool:
    """Layers over one patch or one vector per request."""
    return name in ("patch_embedding", "condition_embedder")


def load_transformer(spec: Expert, _cache: Cache | None) -> WanTransformer:
    """From `transformer/`; `vae/` tells how many pixels and frames a latent element is."""
    from diffusers import WanTransformer3DModel

    root = folder_of(spec, "WanPipeline")
    _check_pipeline(root)
    check_scheduler(root)
    folder = root / "transformer"
    config = read_config(folder, key="_class_name", kind="WanTransformer3DModel")
    if config.get("out_channels", 16) != config.get("in_channels", 16) or config.get("image_dim") is not None:
        raise CheckpointError(f"{folder / 'config.json'}: this is a transformer of pictures to clips, not of text")
    vae = read_config(root / "vae", key="_class_name", kind="AutoencoderKLWan")
    module = fill(diffusers_module(folder, WanTransformer3DModel, config), folder, DIFFUSERS, spec)
    device = torch.device(spec.device)
    _quicken(module.to(device))
    return WanTransformer(
        keep_rows_apart(pack_linears(module), _sees_vectors, device),
        channels=int(config.get("in_channels", 16)),
        size=ClipSize(
            scale=int(vae.get("scale_factor_spatial", 8)),
            temporal=int(vae.get("scale_factor_temporal", 4)),
            patch=int(config.get("patch_size", (1, 2, 2))[1]),
        ),
        most=int(config.get("rope_max_seq_len", 1024)),
        spec=spec,
    )


def _check_pipeline(root: Path) -> None:
    """Refuses Wan 2.2, whose transformers take turns or hear a time per frame."""
    path = root / "model_index.json"
    index = read_json(path)
    for name in ("boundary_ratio", "expand_timesteps"):
        if index.get(name):
            raise CheckpointError(f"{path}: {name} = {index[name]!r} is not supported")
