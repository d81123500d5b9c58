"""What a model folder prescribes for sounds and pictures before its encoders see them.

Read from `preprocessor_config.json`, or from the parts of `processor_config.json` that transformers 5 writes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from torch import Tensor

from omniflow.experts.hf_folder import read_json
from omniflow.experts.lean.errors import CheckpointError
from omniflow.patches import Patching, patches_of
from omniflow.spectrum import log_mel
from omniflow_compiler.schedule import Cache, Expert

FLAT, NESTED = "preprocessor_config.json", "processor_config.json"
RATE = 16_000  # of all published checkpoints; the op's port says so
BICUBIC = 3  # as Pillow counts its filters
CHUNK_SECONDS = 30  # the class default of WhisperFeatureExtractor
CLIP_MEAN, CLIP_STD = (0.48145466, 0.4578275, 0.40821073), (0.26862954, 0.26130258, 0.27577711)
Json = Any


class Section:
    """A part of a folder's preprocessing, whose fields are checked as they are read."""

    def __init__(self, path: Path, fields: Mapping[str, Json]) -> None:
        self.path = path
        self.fields = fields

    def count(self, name: str, default: int | None = None) -> int:
        """A positive whole number. Errors: CheckpointError naming file and field."""
        value = self.fields.get(name, default)
        if not isinstance(value, int) or isinstance(value, bool) or value < 1:
            raise CheckpointError(f"{self.path}: {name} must be a positive integer, not {value!r}")
        return value

    def colours(self, name: str, default: Sequence[float]) -> tuple[float, ...]:
        """A number per colour. Errors: CheckpointError naming file and field."""
        value = self.fields.get(name, default)
        if not isinstance(value, list | tuple) or len(value) != 3 or not all(isinstance(v, int | float) for v in value):
            raise CheckpointError(f"{self.path}: {name} must be three numbers, not {value!r}")
        return tuple(float(v) for v in value)

    def expect(self, name: str, known: Json) -> None:
        """Refuses what is not implemented. Errors: CheckpointError naming file and field."""
        value = self.fields.get(name, known)
        if value != known:
            raise CheckpointError(f"{self.path}: {name} = {value!r} is not supported, only {known!r}")


class LogMel:
    """Role FeatureExtractor (omniflow.roles)."""

    def __init__(self, *, bands: int, window: int, hop: int, seconds: int) -> None:
        self.bands = bands
        self.window = window
        self.hop = hop
        self.seconds = seconds  # the longest sound that may go on in silence

    def features(self, samples: Tensor, *, end: str) -> Tensor:
        """float32 [bands, F]."""
        is_filled = end == "silence"
        if is_filled and len(samples) > self.seconds * RATE:
            found = len(samples) / RATE
            raise ValueError(f"a sound of {found:.1f} s is longer than the {self.seconds} s that this checkpoint hears")
        silence = self.seconds * RATE if is_filled else 0
        return log_mel(samples, bands=self.bands, window=self.window, hop=self.hop, rate=RATE, silence=silence)


class Patches:
    """Role ImageProcessor (omniflow.roles)."""

    def __init__(self, patching: Patching) -> None:
        self.patching = patching

    def patches(self, picture: Tensor) -> tuple[Tensor, Tensor]:
        """float32 [Q, numbers] and int64 [3]."""
        return patches_of(picture, self.patching)


def load_log_mel(spec: Expert, _cache: Cache | None) -> LogMel:
    """Errors: CheckpointError for another kind of extractor, or one that adds noise."""
    section = _section(spec, "feature_extractor")
    section.expect("feature_extractor_type", "WhisperFeatureExtractor")
    section.expect("sampling_rate", RATE)
    section.expect("dither", 0.0)
    section.expect("padding_value", 0.0)
    section.expect("padding_side", "right")
    return LogMel(
        bands=section.count("feature_size"),
        window=section.count("n_fft"),
        hop=section.count("hop_length"),
        seconds=section.count("chunk_length", CHUNK_SECONDS),
    )


def load_patches(spec: Expert, _cache: Cache | None) -> Patches:
    """Errors: CheckpointError for another kind of processor, or steps that are left out or changed."""
    section = _section(spec, "image_processor")
    kind = section.fields.get("image_processor_type", "")
    if kind not in ("", "Qwen2VLImageProcessor", "Qwen2VLImageProcessorFast"):
        raise CheckpointError(f"{section.path}: image_processor_type = {kind!r} is not supported")
    for step in ("do_resize", "do_rescale", "do_normalize", "do_convert_rgb"):
        section.expect(step, True)
    section.expect("resample", BICUBIC)
    section.expect("rescale_factor", 1 / 255)
    std = section.colours("image_std", CLIP_STD)
    if min(std) <= 0:
        raise CheckpointError(f"{section.path}: image_std must be three numbers above zero, not {list(std)}")
    size = section.fields.get("size")
    edges = Section(section.path, size if isinstance(size, dict) else {})
    return Patches(
        Patching(
            patch=section.count("patch_size"),
            merge=section.count("merge_size"),
            frames=section.count("temporal_patch_size"),
            least=section.count("min_pixels", edges.fields.get("shortest_edge", 56 * 56)),
            most=section.count("max_pixels", edges.fields.get("longest_edge", 28 * 28 * 1280)),
            mean=section.colours("image_mean", CLIP_MEAN),
            std=std,
        )
    )


def _section(spec: Expert, part: str) -> Section:
    """A folder's settings of a part. Errors: CheckpointError when there are none."""
    if spec.source is None or spec.source.startswith("$"):
        raise ValueError("it needs the folder of a checkpoint: --set weights=FOLDER")
    folder = Path(spec.source)
    if (folder / FLAT).is_file():
        return Section(folder / FLAT, read_json(folder / FLAT))
    if (folder / NESTED).is_file():
        fields = read_json(folder / NESTED).get(part)
        if isinstance(fields, dict):
            return Section(folder / NESTED, fields)
    raise CheckpointError(f"{folder / FLAT}: not found, and {NESTED} has no {part}; sounds and pictures need it")
