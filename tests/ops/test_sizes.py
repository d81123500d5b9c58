"""What the compiler counts on of sounds and pictures: never less than what comes, known before anything is loaded."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction

import pytest

import omniflow
from omniflow_compiler.library.experts import EXPERTS
from omniflow_compiler.library.signature import FromConfig
from omniflow_compiler.prescribed import with_sizes
from omniflow_compiler.sizes import parse_size


def _most(use: str, frames: int) -> Fraction:
    """Rows that the signature of an audio tower allows, with the sizes of the published checkpoints."""
    signature = EXPERTS[use]
    sizes = {
        name: int((size.default or 0) if isinstance(size, FromConfig) else size)
        for name, size in signature.sizes.items()
    }
    return parse_size(with_sizes(signature.most["A"], sizes)).evaluate(lambda _: Fraction(frames))


def _rows(use: str) -> Callable[[int], int]:
    if use.startswith("qwen3"):
        from transformers.models.qwen3_omni_moe.processing_qwen3_omni_moe import _get_feat_extract_output_lengths
    else:
        from transformers.models.qwen2_5_omni.processing_qwen2_5_omni import _get_feat_extract_output_lengths
    count: Callable[[int], int] = _get_feat_extract_output_lengths
    return count


@pytest.mark.hf
@pytest.mark.parametrize("use", ["qwen2_5_omni.audio", "qwen3_omni.audio"])
def test_a_sound_has_no_more_rows_than_its_towers_signature_says_and_hardly_fewer(use: str) -> None:
    rows = _rows(use)
    for frames in [*range(3, 1200), 29999, 30000]:
        assert rows(frames) <= _most(use, frames) <= rows(frames) + 2


@pytest.mark.parametrize(
    ("program", "sound"), [("qwen2_5_omni.speech", 7502), ("qwen2_5_omni.stream", 7502), ("qwen3_omni.speech", 3902)]
)
def test_the_plan_has_the_most_rows_of_a_sound_and_of_all_pictures(program: str, sound: int) -> None:
    lengths = omniflow.compile(program).lengths
    assert lengths["read/frames.F"] == 30001
    assert lengths["read/hear.A"] == sound
    assert lengths["read/patches.Q"] == 65536
    assert lengths["read/seen.S2"] == 4 * 65536 // 4
