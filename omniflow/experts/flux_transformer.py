"""FLUX's transformer as a denoiser: text and picture in one sequence, times and guidance embedded, any batch."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from omniflow.experts.flux_attention import FluxAttention
from omniflow.experts.hf_folder import DIFFUSERS, diffusers_module, dtype_of, fill, folder_of, read_config
from omniflow.experts.hf_rows import by_shape, keep_rows_apart
from omniflow.experts.lean import CheckpointError
from omniflow.experts.packed import PackedLinear, pack_feed_forward, pack_linears, packs
from omniflow.experts.pixels import whole_pixels
from omniflow.experts.scheduler_config import check_scheduler
from omniflow.roles import Latents
from omniflow_compiler.schedule import Cache, Expert

PATCH = 2  # the transformer sees squares of latent elements
TRAIN_STEPS = 1000


class _Row(NamedTuple):
    latent: Tensor
    time: float
    conditions: Mapping[str, Any]


class FluxTransformer:
    """Role Denoiser. Latents are [C, H, W]; packing them into squares is this module's own business.

    Conditions: `condition` [P, D], `pooled` [E], `height` and `width` in pixels, and `guidance` where it is embedded.
    """

    def __init__(self, model: nn.Module, *, channels: int, scale: int, embeds_guidance: bool, spec: Expert) -> None:
        self.channels = channels
        self.scale = scale
        self.embeds_guidance = embeds_guidance
        self.dtype, self.device = dtype_of(spec), torch.device(spec.device)
        self._model = model

    def initial(self, conditions: Mapping[str, Any], *, generator: torch.Generator) -> Tensor:
        """Noise [C, 2 * (height // (2 * scale)), ...]. Errors: ValueError for sizes, or guidance that has no place."""
        if self.embeds_guidance != ("guidance" in conditions):
            raise ValueError(
                "this checkpoint was distilled with guidance and nothing feeds `guidance`"
                if self.embeds_guidance
                else "this checkpoint has no embedding of guidance; use a program without that input"
            )
        step = PATCH * self.scale
        rows, columns = (
            PATCH * (whole_pixels(conditions[name], name, least=step) // step) for name in ("height", "width")
        )
        return torch.randn(1, self.channels, rows, columns, generator=generator)[0].to(self.device)

    def sequence_length(self, latents: Latents) -> int:
        """Squares of a latent."""
        assert isinstance(latents, Tensor)
        return latents.shape[1] * latents.shape[2] // PATCH**2

    @torch.inference_mode()
    def velocity(
        self, latents: Sequence[Latents], times: Sequence[float], conditions: Sequence[Mapping[str, Any]]
    ) -> list[Tensor]:
        """One forward per shape of latent and length of text."""
        rows = [
            _Row(latent, time, known)
            for latent, time, known in zip(latents, times, conditions, strict=True)
            if isinstance(latent, Tensor)
        ]
        return by_shape(rows, lambda row: (row.latent.shape, row.conditions["condition"].shape), self._run)

    def _run(self, rows: list[_Row]) -> list[Tensor]:
        _, height, width = rows[0].latent.shape
        text = torch.stack([row.conditions["condition"] for row in rows]).to(self.device, self.dtype)
        steps = torch.tensor([(1.0 - row.time) * TRAIN_STEPS for row in rows], dtype=torch.float32)
        guidance = None
        if self.embeds_guidance:
            guidance = torch.tensor([float(row.conditions["guidance"]) for row in rows], device=self.device)
        velocity = self._model(
            hidden_states=pack(torch.stack([row.latent for row in rows])).to(self.dtype),
            timestep=steps.to(self.device, self.dtype) / TRAIN_STEPS,
            guidance=guidance,
            pooled_projections=torch.stack([row.conditions["pooled"] for row in rows]).to(self.device, self.dtype),
            encoder_hidden_states=text,
            txt_ids=torch.zeros(text.shape[1], 3, device=self.device, dtype=self.dtype),
            img_ids=_places(height // PATCH, width // PATCH).to(self.device, self.dtype),
            return_dict=False,
        )[0]
        return list(-unpack(velocity, height, width).float())


def pack(latents: Tensor) -> Tensor:
    """[B, C, H, W] as a sequence of squares, [B, H / 2 * W / 2, 4 * C]."""
    batch, channels, height, width = latents.shape
    squares = latents.view(batch, channels, height // PATCH, PATCH, width // PATCH, PATCH)
    return squares.permute(0, 2, 4, 1, 3, 5).reshape(batch, -1, channels * PATCH**2)


def unpack(sequence: Tensor, height: int, width: int) -> Tensor:
    """The inverse of `pack`."""
    batch, _, depth = sequence.shape
    squares = sequence.view(batch, height // PATCH, width // PATCH, depth // PATCH**2, PATCH, PATCH)
    return squares.permute(0, 3, 1, 4, 2, 5).reshape(batch, depth // PATCH**2, height, width)


def _places(rows: int, columns: int) -> Tensor:
    """Where each square is: (0, row, column), [rows * columns, 3]."""
    places = torch.zeros(rows, columns, 3)
    places[..., 1] = torch.arange(rows)[:, None]
    places[..., 2] = torch.arange(columns)
    return places.view(-1, 3)


def _sees_vectors(name: str) -> bool:
    """Layers over one vector per request: embeddings of time, text and guidance, and what they modulate."""
    return name == "time_text_embed" or re.search(r"norm(1|1_context|_out)?\.linear$", name) is not None


def _quicken(model: Any) -> None:
    """Gives blocks this package's attention, and GELU in the pass of the layer before it where that is packed."""
    model.set_attn_processor(FluxAttention())
    for block in model.transformer_blocks:
        pack_feed_forward(block.ff)
        pack_feed_forward(block.ff_context)
    for block in model.single_transformer_blocks:
        if packs(block.proj_mlp):
            block.proj_mlp, block.act_mlp = PackedLinear(block.proj_mlp, gelu=True), nn.Identity()


def load_transformer(spec: Expert, _cache: Cache | None) -> FluxTransformer:
    """From `transformer/`; `vae/` tells how many pixels a latent element is."""
    from diffusers import FluxTransformer2DModel

    root = folder_of(spec, "FluxPipeline")
    check_scheduler(root)
    folder = root / "transformer"
    config = read_config(folder, key="_class_name", kind="FluxTransformer2DModel")
    blocks = read_config(root / "vae", key="_class_name", kind="AutoencoderKL").get("block_out_channels", ())
    if config.get("patch_size", 1) != 1 or config.get("out_channels") not in (None, config.get("in_channels")):
        raise CheckpointError(f"{folder / 'config.json'}: patch_size and out_channels are supported as FLUX has them")
    module = fill(diffusers_module(folder, FluxTransformer2DModel, config), folder, DIFFUSERS, spec)
    device = torch.device(spec.device)
    _quicken(module.to(device))
    return FluxTransformer(
        keep_rows_apart(pack_linears(module), _sees_vectors, device),
        channels=int(config.get("in_channels", 64)) // PATCH**2,
        scale=2 ** (len(blocks) - 1),
        embeds_guidance=bool(config.get("guidance_embeds", False)),
        spec=spec,
    )
