"""The experts of this process: which loader makes each, and each made once, whoever asks for it."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import asdict
from functools import cache
from importlib import import_module
from importlib.metadata import entry_points
from typing import Any

import torch

from omniflow.errors import BindError
from omniflow.experts.lean.errors import CheckpointError
from omniflow.plugins import plugin_modules
from omniflow_compiler.schedule import Cache, Expert, Schedule

Loader = Callable[[Expert, Cache | None], Any]

BUILT_IN: Mapping[str, str] = {
    "null.tokenizer": "omniflow.experts.null_text:load_tokenizer",
    "null.lexicon": "omniflow.experts.null_text:load_lexicon",
    "null.thinker": "omniflow.experts.null_language:load_thinker",
    "null.talker": "omniflow.experts.null_language:load_talker",
    "null.codec": "omniflow.experts.null_frames:load_codec",
    "null.composer": "omniflow.experts.null_frames:load_composer",
    "null.depth": "omniflow.experts.null_frames:load_depth",
    "null.framer": "omniflow.experts.null_frames:load_framer",
    "cosmos3.sound": "omniflow.experts.cosmos3_decoders:load_sound",
    "cosmos3.tokenizer": "omniflow.experts.cosmos3_decoders:load_tokenizer",
    "cosmos3.transformer": "omniflow.experts.cosmos3_transformer:load_transformer",
    "cosmos3.vae": "omniflow.experts.cosmos3_decoders:load_vae",
    "csm.backbone": "omniflow.experts.csm_loaders:backbone",
    "csm.depth": "omniflow.experts.csm_loaders:depth",
    "csm.mimi": "omniflow.experts.csm_loaders:mimi",
    "flux.clip": "omniflow.experts.hf_text:load_clip",
    "flux.clip_tokenizer": "omniflow.experts.hf_text:load_tokenizer",
    "flux.t5": "omniflow.experts.hf_text:load_t5",
    "flux.t5_tokenizer": "omniflow.experts.hf_text:load_tokenizer_2",
    "flux.transformer": "omniflow.experts.flux_transformer:load_transformer",
    "flux.vae": "omniflow.experts.flux_vae:load_vae",
    "hf.log_mel": "omniflow.experts.hf_processor:load_log_mel",
    "hf.patches": "omniflow.experts.hf_processor:load_patches",
    "hf.decoder": "omniflow.experts.hf_decoder:load_decoder",
    "hf.tokenizer": "omniflow.experts.hf_tokenizer:load_tokenizer",
    "musicgen.decoder": "omniflow.experts.musicgen_loaders:decoder",
    "musicgen.encodec": "omniflow.experts.musicgen_loaders:encodec",
    "musicgen.encodec_stereo": "omniflow.experts.musicgen_loaders:encodec_stereo",
    "musicgen.stereo_decoder": "omniflow.experts.musicgen_loaders:decoder",
    "musicgen.t5": "omniflow.experts.musicgen_loaders:t5",
    "wan.tokenizer": "omniflow.experts.hf_text:load_tidy_tokenizer",
    "wan.transformer": "omniflow.experts.wan_transformer:load_transformer",
    "wan.umt5": "omniflow.experts.hf_text:load_umt5",
    "wan.vae": "omniflow.experts.wan_vae:load_vae",
    "null.denoiser": "omniflow.experts.null_image:load_denoiser",
    "null.image_decoder": "omniflow.experts.null_image:load_image_decoder",
    "null.screen": "omniflow.experts.null_image:load_screen",
    "null.text_encoder": "omniflow.experts.null_image:load_text_encoder",
    "null.world": "omniflow.experts.null_world:load_world",
    "null.acoustic": "omniflow.experts.null_sound:load_acoustic",
    "null.vocoder": "omniflow.experts.null_sound:load_vocoder",
    "qwen2_5_omni.audio": "omniflow.experts.qwen2_5_omni_loaders:audio",
    "qwen2_5_omni.bigvgan": "omniflow.experts.qwen2_5_omni_loaders:bigvgan",
    "qwen2_5_omni.dit": "omniflow.experts.qwen2_5_omni_loaders:dit",
    "qwen2_5_omni.speaker": "omniflow.experts.qwen2_5_omni_loaders:speaker",
    "qwen2_5_omni.talker": "omniflow.experts.qwen2_5_omni_loaders:talker",
    "qwen2_5_omni.thinker": "omniflow.experts.qwen2_5_omni_loaders:thinker",
    "qwen2_5_omni.vision": "omniflow.experts.qwen2_5_omni_loaders:vision",
    "qwen2_5_omni.voices": "omniflow.experts.qwen2_5_omni_loaders:voices",
    "qwen3_omni.audio": "omniflow.experts.qwen3_omni_loaders:audio",
    "qwen3_omni.code2wav": "omniflow.experts.qwen3_omni_loaders:code2wav",
    "qwen3_omni.predictor": "omniflow.experts.qwen3_omni_loaders:predictor",
    "qwen3_omni.talker": "omniflow.experts.qwen3_omni_loaders:talker",
    "qwen3_omni.thinker": "omniflow.experts.qwen3_omni_loaders:thinker",
    "qwen3_omni.vision": "omniflow.experts.qwen3_omni_loaders:vision",
    "qwen3_omni.voices": "omniflow.experts.qwen3_omni_loaders:voices",
    "smol.acoustic": "omniflow.experts.smol_loaders:load_acoustic",
    "smol.lexicon": "omniflow.experts.smol_loaders:load_lexicon",
    "smol.talker": "omniflow.experts.smol_loaders:load_talker",
    "smol.thinker": "omniflow.experts.smol_loaders:load_thinker",
    "smol.tokenizer": "omniflow.experts.smol_loaders:load_tokenizer",
    "smol.vocoder": "omniflow.experts.smol_loaders:load_vocoder",
}

_LOADED: dict[str, Any] = {}  # experts of this process


def load_expert(spec: Expert, cache_spec: Cache | None) -> Any:
    """The expert of a component; a second call with the same component gives the same object. Errors: BindError."""
    key = json.dumps(
        [asdict(spec) | {"name": "", "place": ""}, asdict(cache_spec) if cache_spec else None], sort_keys=True
    )
    if key not in _LOADED:
        _check_device(spec)
        loader = find_loader(spec)
        try:
            _LOADED[key] = loader(spec, cache_spec)
        except (OSError, ValueError, ImportError, RuntimeError, CheckpointError) as error:
            raise BindError(f"{spec.place}: component {spec.name} ({spec.use}) cannot be loaded: {error}") from error
    return _LOADED[key]


def _check_device(spec: Expert) -> None:
    """Errors: BindError, when this machine has no such device."""
    number = int(spec.device.partition(":")[2] or 0)
    count = torch.cuda.device_count() if spec.device.startswith("cuda") else number + 1
    if number >= count:
        raise BindError(
            f"{spec.place}: component {spec.name} is to run on {spec.device}, and this machine has "
            f"{count or 'no'} CUDA devices; compile it for another with --device"
        )


def find_loader(spec: Expert) -> Loader:
    """The loader that `use` names: a plugin's, built in, or a package's. Errors: BindError naming those there are."""
    for plugin_module in plugin_modules():
        own: Loader | None = vars(plugin_module).get("LOADERS", {}).get(spec.use)
        if own is not None:
            return own
    plugins = _plugins()
    path = BUILT_IN.get(spec.use)
    try:
        if path is not None:
            module, _, name = path.partition(":")
            loader: Loader = getattr(import_module(module), name)
            return loader
        if spec.use in plugins:
            plugin: Loader = plugins[spec.use].load()
            return plugin
    except ImportError as error:
        raise BindError(f"{spec.place}: component {spec.name} ({spec.use}) cannot be imported: {error}") from error
    known = ", ".join(sorted({*BUILT_IN, *plugins}))
    raise BindError(f"{spec.place}: component {spec.name} uses {spec.use}, which is not installed; there are {known}")


@cache
def _plugins() -> Mapping[str, Any]:
    return {point.name: point for point in entry_points(group="omniflow.experts")}


def cache_of(spec: Expert, schedule: Schedule) -> Cache | None:
    """The cache that an expert's loops lease from."""
    names = {node.cache for node in schedule.nodes if node.expert == spec.name and node.cache}
    inner = [node.inner for node in schedule.nodes if node.inner is not None]
    names |= {loop.cache for loop in inner if loop.expert == spec.name and loop.cache}
    return next((found for found in schedule.caches if found.name in names and found.kind == "paged_kv"), None)
