"""What a model folder says of its preprocessing: both kinds of file, and what is not supported."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch

from omniflow.experts.hf_processor import load_log_mel, load_patches
from omniflow.experts.lean.errors import CheckpointError
from omniflow_compiler.schedule import Expert, Place

SOUND = {
    "feature_extractor_type": "WhisperFeatureExtractor",
    "feature_size": 12,
    "sampling_rate": 16000,
    "hop_length": 160,
    "n_fft": 400,
    "chunk_length": 2,
}
PICTURE = {
    "image_processor_type": "Qwen2VLImageProcessorFast",
    "patch_size": 2,
    "merge_size": 2,
    "temporal_patch_size": 2,
}


def _folder(at: Path, content: Any, name: str = "preprocessor_config.json") -> Expert:
    at.mkdir(exist_ok=True)
    (at / name).write_text(json.dumps(content), encoding="utf-8")
    return Expert(
        name="sounds", use="hf.log_mel", role="feature_extractor", source=str(at), dtype="float32", device="cpu",
        attributes={}, sizes={}, weight_bytes=0, digest="", place=Place(file="card.yaml", line=1, column=1),
    )  # fmt: skip


def test_both_kinds_of_file_say_the_same(tmp_path: Path) -> None:
    flat = _folder(tmp_path / "flat", SOUND | PICTURE | {"min_pixels": 16, "max_pixels": 400})
    size = {"shortest_edge": 16, "longest_edge": 400}
    parts = {"feature_extractor": SOUND, "image_processor": PICTURE | {"size": size}}
    nested = _folder(tmp_path / "nested", parts, "processor_config.json")
    sound = torch.randn(5000, generator=torch.Generator().manual_seed(1))
    own, other = (load_log_mel(spec, None).features(sound, end="mirror") for spec in (flat, nested))
    assert own.shape == (12, 31)
    assert torch.equal(own, other)
    assert load_patches(flat, None).patching == load_patches(nested, None).patching
    assert load_patches(flat, None).patching.mean == (0.48145466, 0.4578275, 0.40821073)


def test_a_sound_longer_than_what_it_is_filled_up_to_is_refused(tmp_path: Path) -> None:
    ears = load_log_mel(_folder(tmp_path, SOUND), None)
    assert ears.features(torch.zeros(32000), end="silence").shape == (12, 200)
    with pytest.raises(ValueError, match=r"a sound of 2\.5 s is longer than the 2 s that this checkpoint hears"):
        ears.features(torch.zeros(40000), end="silence")
    assert ears.features(torch.zeros(40000), end="mirror").shape == (12, 250)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"feature_extractor_type": "ClapFeatureExtractor"}, "feature_extractor_type = 'ClapFeatureExtractor' is not"),
        ({"sampling_rate": 24000}, "sampling_rate = 24000 is not supported, only 16000"),
        ({"dither": 0.1}, r"dither = 0\.1 is not supported"),
        ({"padding_side": "left"}, "padding_side = 'left' is not supported"),
        ({"feature_size": "12"}, "feature_size must be a positive integer, not '12'"),
        ({"hop_length": 0}, "hop_length must be a positive integer, not 0"),
    ],
)  # fmt: skip
def test_sounds_that_would_be_prepared_otherwise_name_file_and_field(
    tmp_path: Path, change: dict[str, Any], message: str
) -> None:
    with pytest.raises(CheckpointError, match=rf"preprocessor_config\.json: {message}"):
        load_log_mel(_folder(tmp_path, SOUND | change), None)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"image_processor_type": "SiglipImageProcessor"}, "image_processor_type = 'SiglipImageProcessor' is not"),
        ({"do_resize": False}, "do_resize = False is not supported"),
        ({"resample": 2}, "resample = 2 is not supported, only 3"),
        ({"rescale_factor": 1.0}, r"rescale_factor = 1\.0 is not supported"),
        ({"image_std": [1.0, 1.0]}, "image_std must be three numbers, not"),
        ({"image_mean": [0.0, "a", 0.0]}, "image_mean must be three numbers, not"),
        ({"image_std": [1.0, 0.0, 1.0]}, "image_std must be three numbers above zero"),
        ({"patch_size": None}, "patch_size must be a positive integer, not None"),
    ],
)  # fmt: skip
def test_pictures_that_would_be_prepared_otherwise_name_file_and_field(
    tmp_path: Path, change: dict[str, Any], message: str
) -> None:
    with pytest.raises(CheckpointError, match=rf"preprocessor_config\.json: {message}"):
        load_patches(_folder(tmp_path, PICTURE | change), None)


def test_a_folder_without_either_file_says_which_is_missing(tmp_path: Path) -> None:
    spec = _folder(tmp_path, {"image_processor": PICTURE}, "processor_config.json")
    with pytest.raises(CheckpointError, match=r"preprocessor_config\.json: not found, .*has no feature_extractor"):
        load_log_mel(spec, None)
    (tmp_path / "preprocessor_config.json").write_text("{", encoding="utf-8")
    with pytest.raises(CheckpointError, match=r"preprocessor_config\.json: is not JSON"):
        load_log_mel(spec, None)
