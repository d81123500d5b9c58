"""Sounds and pictures as transformers' own classes prepare them, from the settings that a folder keeps."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import soundfile
import torch
from torch import Tensor

from omniflow.artefacts import png


def write_files(folder: Path, *, seconds: Mapping[str, float], pictures: Sequence[str] = ("a.png",)) -> None:
    """Sounds of one channel at 16 kHz by name and length, and pictures of 31 rows and 22 columns."""
    generator = torch.Generator().manual_seed(4)
    for name, length in seconds.items():
        noise = 0.3 * torch.randn(int(16000 * length), generator=generator)
        soundfile.write(folder / f"{name}.wav", noise.numpy(), 16000, subtype="FLOAT")
    for name in pictures:
        (folder / name).write_bytes(png(torch.randint(0, 256, (31, 22, 3), generator=generator, dtype=torch.uint8)))


def sound(path: Path) -> Tensor:
    """float32 [S] of a file of one channel at 16 kHz."""
    samples, _ = soundfile.read(path, dtype="float32")
    return torch.from_numpy(samples)


def picture(path: Path) -> Tensor:
    """uint8 [H, W, 3]."""
    from PIL import Image

    with Image.open(path) as image:
        return torch.from_numpy(np.array(image.convert("RGB")))


def heard(samples: Tensor, settings: Mapping[str, Any], *, fills: bool) -> Tensor:
    """[bands, F] by WhisperFeatureExtractor. fills: up to its longest sound, as Qwen2.5-Omni's processor asks for."""
    from transformers import WhisperFeatureExtractor

    extractor = WhisperFeatureExtractor(**_of(settings, "feature_size", "hop_length", "n_fft", "chunk_length"))
    asked: dict[str, Any] = {"padding": "max_length"} if fills else {"padding": True, "truncation": False}
    found = extractor(samples.numpy(), sampling_rate=16000, return_attention_mask=True, return_tensors="pt", **asked)
    features: Tensor = found["input_features"][0][:, found["attention_mask"][0].bool()]
    return features


def seen(picture: Tensor, settings: Mapping[str, Any]) -> tuple[Tensor, tuple[int, int, int]]:
    """[Q, numbers] and the grid by Qwen2VLImageProcessor, in the form that needs Pillow alone."""
    from transformers.models.qwen2_vl.image_processing_pil_qwen2_vl import Qwen2VLImageProcessorPil

    names = ("patch_size", "merge_size", "temporal_patch_size", "min_pixels", "max_pixels", "image_mean", "image_std")
    found = Qwen2VLImageProcessorPil(**_of(settings, *names))(
        [picture.numpy()], return_tensors="pt", input_data_format="channels_last"
    )
    frames, rows, columns = found["image_grid_thw"][0].tolist()
    return found["pixel_values"], (frames, rows, columns)


def _of(settings: Mapping[str, Any], *names: str) -> dict[str, Any]:
    return {name: settings[name] for name in names if name in settings}
