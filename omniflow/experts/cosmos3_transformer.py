"""Cosmos 3's mixture of transformers, resident once: experts that understand text, experts that generate clips.

Layer by layer the two share attention in one direction: what is generated attends to the keys and values of the text,
which therefore are computed once, by `ar_decode`, and read in every denoise step where they lie.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from omniflow.experts.cosmos3_generation import Generation, Sizes
from omniflow.experts.cosmos3_understanding import UnderstandingStack, text_config
from omniflow.experts.hf_folder import DIFFUSERS, diffusers_module, dtype_of, fill, folder_of, read_config, read_json
from omniflow.experts.lean import CheckpointError, LeanDecoder
from omniflow.experts.lean.rope import Rope
from omniflow.experts.packed import pack_linears
from omniflow.experts.scheduler_config import check_scheduler
from omniflow.kv import KvArena
from omniflow.roles import Latents, SequenceState, StepResult, TokenRows
from omniflow_compiler.schedule import Cache, Expert

PIPELINE = "Cosmos3OmniPipeline"
UNCACHED_TOKENS, BLOCK_TOKENS = 4096, 16


class Cosmos3Transformer:
    """Roles Autoregressor, Embedder and Denoiser over one set of weights and one arena of keys and values."""

    def __init__(self, decoder: LeanDecoder, generation: Generation) -> None:
        self.decoder = decoder
        self.generation = generation

    @property
    def arena(self) -> KvArena:
        """Where the keys and values of all texts lie."""
        return self.decoder.arena

    @property
    def vocab_size(self) -> int:
        """How many logits a row has."""
        return self.decoder.vocab_size

    @property
    def start_ids(self) -> Sequence[int]:
        """None: the prompt is an input."""
        return ()

    def open(self, conditions: Mapping[str, Tensor], *, max_positions: int) -> SequenceState | None:
        """A new text; None while the arena has no room."""
        return self.decoder.open(conditions, max_positions=max_positions)

    def step(self, rows: Sequence[TokenRows]) -> list[StepResult]:
        """One forward of the understanding experts."""
        return self.decoder.step(rows)

    def close(self, sequence: SequenceState) -> None:
        """Gives a text's room back."""
        self.decoder.close(sequence)

    def embed(self, ids: Tensor) -> Tensor:
        """Input embeddings [n, D] of int64 ids [n]."""
        return self.decoder.embed(ids)

    def initial(self, conditions: Mapping[str, Any], *, generator: torch.Generator) -> Latents:
        """Noise for the clip, and for its sound where that is wanted."""
        return self.generation.initial(conditions, generator=generator)

    def velocity(
        self, latents: Sequence[Latents], times: Sequence[float], conditions: Sequence[Mapping[str, Any]]
    ) -> list[Latents]:
        """One forward of the generating experts."""
        return self.generation.velocity(latents, times, conditions)


def load_transformer(spec: Expert, cache: Cache | None) -> Cosmos3Transformer:
    """From `transformer/`, `vae/config.json` and, where sound is made, `sound_tokenizer/config.json`."""
    from diffusers import Cosmos3OmniTransformer

    root = folder_of(spec, PIPELINE)
    check_scheduler(root)
    if read_json(root / "model_index.json").get("use_native_flow_schedule"):
        raise CheckpointError(f"{root / 'model_index.json'}: use_native_flow_schedule is not supported")
    folder = root / "transformer"
    config = read_config(folder, key="_class_name", kind="Cosmos3OmniTransformer")
    _check(config, folder / "config.json")
    device, dtype = torch.device(spec.device), dtype_of(spec)
    hollow: Any = diffusers_module(folder, Cosmos3OmniTransformer, config)
    model: Any = pack_linears(fill(hollow, folder, DIFFUSERS, spec).to(device))
    lean = text_config(model.config)
    arena = _arena(lean, cache, dtype, device)
    decoder = LeanDecoder(
        lean,
        UnderstandingStack(model),
        embed=model.embed_tokens.weight,
        arena=arena,
        rope=Rope(lean.rope, head_dim=lean.head_dim, device=device),
        dtype=dtype,
        device=device,
        taps={},
    )
    return Cosmos3Transformer(decoder, Generation(model, arena, _sizes(root, model), dtype=dtype, device=device))


def _check(config: Mapping[str, Any], path: Path) -> None:
    """Refuses what is not computed here. Errors: CheckpointError naming the setting."""
    for name, known in (("hidden_act", "silu"), ("action_gen", False), ("use_und_k_norm_for_gen", False)):
        value = config.get(name, known)
        if value != known:
            raise CheckpointError(f"{path}: {name} = {value!r} is not supported, only {known!r}")


def _arena(config: Any, cache: Cache | None, dtype: torch.dtype, device: torch.device) -> KvArena:
    """As many tokens as the card's cache has bytes for."""
    token_bytes = 2 * config.num_layers * config.num_kv_heads * config.head_dim * dtype.itemsize
    tokens = cache.max_bytes // token_bytes if cache else UNCACHED_TOKENS
    block = cache.block_tokens if cache else BLOCK_TOKENS
    return KvArena(
        num_layers=config.num_layers,
        num_kv_heads=config.num_kv_heads,
        head_dim=config.head_dim,
        num_blocks=max(1, tokens // block),
        block_tokens=block,
        dtype=dtype,
        device=device,
    )


def _sizes(root: Path, model: Any) -> Sizes:
    """How clips and sounds become latents."""
    vae = read_config(root / "vae", key="_class_name", kind="AutoencoderKLWan")
    rate, hop = 0, 1
    if model.config.sound_gen:
        sound = read_config(root / "sound_tokenizer", key="_class_name", kind="Cosmos3AVAEAudioTokenizer")
        rate = int(sound.get("sampling_rate", 48000))
        for stride in sound.get("dec_strides", (2, 4, 5, 6, 8)):
            hop *= int(stride)
        hop = int(sound.get("hop_size") or hop)
    return Sizes(
        scale=int(vae.get("scale_factor_spatial", 8)),
        temporal=int(vae.get("scale_factor_temporal", 4)),
        sound_rate=rate,
        sound_hop=hop,
    )
