"""Pictures as patches: those of Qwen2VLImageProcessor for every shape, and pictures that cannot be cut."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from omniflow.patches import Patching, fitting_size, patches_of
from tests.parity import prepared

SETTINGS: dict[str, dict[str, Any]] = {
    "qwen2.5": {
        "patch_size": 14, "merge_size": 2, "temporal_patch_size": 2, "min_pixels": 3136, "max_pixels": 200_704,
        "image_mean": [0.48145466, 0.4578275, 0.40821073], "image_std": [0.26862954, 0.26130258, 0.27577711],
    },
    "qwen3": {
        "patch_size": 16, "merge_size": 2, "temporal_patch_size": 2, "min_pixels": 3136, "max_pixels": 262_144,
        "image_mean": [0.5, 0.5, 0.5], "image_std": [0.5, 0.5, 0.5],
    },
    "tiny": {
        "patch_size": 2, "merge_size": 3, "temporal_patch_size": 1, "min_pixels": 16, "max_pixels": 400,
        "image_mean": [0.1, 0.2, 0.3], "image_std": [0.9, 0.8, 0.7],
    },
}  # fmt: skip


def _patching(settings: dict[str, Any]) -> Patching:
    return Patching(
        patch=settings["patch_size"], merge=settings["merge_size"], frames=settings["temporal_patch_size"],
        least=settings["min_pixels"], most=settings["max_pixels"], mean=settings["image_mean"],
        std=settings["image_std"],
    )  # fmt: skip


def _picture(height: int, width: int) -> Tensor:
    generator = torch.Generator().manual_seed(height * width)
    return torch.randint(0, 256, (height, width, 3), generator=generator, dtype=torch.uint8)


@pytest.mark.hf
@pytest.mark.parametrize("name", SETTINGS)
@pytest.mark.parametrize("size", [(1, 1), (28, 28), (5, 3), (333, 211), (10, 1900), (700, 640)], ids=str)
def test_patches_are_those_of_transformers_whatever_the_shape(name: str, size: tuple[int, int]) -> None:
    pixels, grid = patches_of(_picture(*size), _patching(SETTINGS[name]))
    expected, expected_grid = prepared.seen(_picture(*size), SETTINGS[name])
    assert tuple(grid.tolist()) == expected_grid
    torch.testing.assert_close(pixels, expected, atol=1e-6, rtol=0)


@pytest.mark.hf
def test_rows_of_a_square_stand_together_and_a_patch_is_colour_by_colour() -> None:
    patching = Patching(patch=1, merge=2, frames=2, least=1, most=64, mean=(0.0, 0.0, 0.0), std=(1.0, 1.0, 1.0))
    picture = torch.arange(2 * 4 * 3, dtype=torch.uint8).view(2, 4, 3)
    pixels, grid = patches_of(picture, patching)
    assert grid.tolist() == [1, 2, 4]
    reds = (pixels[:, 0] * 255).round().long().tolist()
    assert reds == [0, 3, 12, 15, 6, 9, 18, 21]  # the left square row by row, then the right one
    assert (pixels[0] * 255).round().long().tolist() == [0, 0, 1, 1, 2, 2]  # each colour in both frames


def test_sizes_fit_their_bounds_in_whole_squares() -> None:
    patching = _patching(SETTINGS["qwen2.5"])
    for height, width in ((1, 1), (20, 3000), (4000, 4000), (29, 27)):
        fitted = fitting_size(height, width, patching)
        assert all(side % 28 == 0 and side > 0 for side in fitted)
        assert fitted[0] * fitted[1] <= 200_704
    assert fitting_size(4000, 4000, patching) == (448, 448)


@pytest.mark.parametrize("size", [(1, 201), (402, 2), (0, 5)], ids=str)
def test_a_picture_that_is_all_length_is_refused(size: tuple[int, int]) -> None:
    with pytest.raises(ValueError, match=rf"a picture of {size[1]} x {size[0]} cannot be cut"):
        fitting_size(*size, _patching(SETTINGS["qwen3"]))
