"""Pictures as patches: a size that patches fill, colours around zero, squares of neighbouring patches together."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

MOST_STRETCHED = 200  # the longer side over the shorter one


@dataclass(frozen=True, slots=True, kw_only=True)
class Patching:
    """How a model's pictures are cut. patch: pixels along a side; merge: patches along a side that become one row of

    the encoder; frames: how often a picture is repeated in time; least, most: pixels of a picture after resizing;
    mean, std: of each colour, in [0, 1].
    """

    patch: int
    merge: int
    frames: int
    least: int
    most: int
    mean: Sequence[float]
    std: Sequence[float]

    @property
    def side(self) -> int:
        """Pixels along a side of one row of the encoder."""
        return self.patch * self.merge


def patches_of(picture: Tensor, patching: Patching) -> tuple[Tensor, Tensor]:
    """uint8 [H, W, 3] as patches float32 [Q, 3 * frames * patch²] and their grid int64 [3]: frames, rows, columns.

    Source: `Qwen2VLImageProcessorPil` of transformers. Errors: ValueError for a picture that cannot be cut.
    """
    height, width = fitting_size(picture.shape[0], picture.shape[1], patching)
    resized = (_resized(picture, height, width).double() / 255).float()
    mean, std = (torch.tensor(list(values), dtype=torch.float32) for values in (patching.mean, patching.std))
    colours = ((resized - mean) / std).permute(2, 0, 1)
    rows, columns = height // patching.side, width // patching.side
    cut = colours.reshape(3, rows, patching.merge, patching.patch, columns, patching.merge, patching.patch)
    squares = cut.permute(1, 4, 2, 5, 0, 3, 6)[:, :, :, :, :, None]
    repeated = squares.expand(-1, -1, -1, -1, -1, patching.frames, -1, -1)
    patches = repeated.reshape(rows * columns * patching.merge**2, -1)
    return patches, torch.tensor([1, rows * patching.merge, columns * patching.merge])


def fitting_size(height: int, width: int, patching: Patching) -> tuple[int, int]:
    """The nearest size of about the same shape whose sides are whole squares and whose area is allowed.

    Source: `smart_resize` of transformers. Errors: ValueError for a picture that is empty or too long for its width.
    """
    if min(height, width) < 1 or max(height, width) > MOST_STRETCHED * min(height, width):
        raise ValueError(
            f"a picture of {width} x {height} cannot be cut: one side may be {MOST_STRETCHED} times the other"
        )
    side = patching.side
    fitted = round(height / side) * side, round(width / side) * side
    if math.prod(fitted) > patching.most:
        shrink = math.sqrt(height * width / patching.most)
        return max(1, math.floor(height / shrink / side)) * side, max(1, math.floor(width / shrink / side)) * side
    if math.prod(fitted) < patching.least:
        grow = math.sqrt(patching.least / (height * width))
        return math.ceil(height * grow / side) * side, math.ceil(width * grow / side) * side
    return fitted


def _resized(picture: Tensor, height: int, width: int) -> Tensor:
    """uint8 [height, width, 3] by Pillow's bicubic filter, which widens when it shrinks."""
    try:
        from PIL import Image
    except ImportError:
        raise ValueError("resizing pictures needs pillow: pip install 'omniflow[hf]'") from None
    image = Image.fromarray(picture.to(dtype=torch.uint8, device="cpu").numpy(), mode="RGB")
    return torch.from_numpy(np.array(image.resize((width, height), Image.Resampling.BICUBIC)))
