"""The vocoder gives the same samples however its frames are cut into chunks and whoever is decoded beside it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pytest
import torch
from torch import Tensor

from omniflow.experts.smol_acoustic import SmolAcoustic
from omniflow.experts.smol_lexicon import SmolLexicon
from omniflow.experts.smol_vocoder import CONTEXT, SmolVocoder
from omniflow.experts.smol_waveform import frame_noise
from omniflow.roles import DecoderRows
from tests.experts.smol.speaking import decode
from tests.experts.smol.test_acoustic import SENTENCES, phonemes, whole

EVERYTHING = 1_000_000


@pytest.fixture(scope="module")
def untrained() -> SmolVocoder:
    """The architecture with random weights, so that these tests need no wheel."""
    torch.manual_seed(0)
    vocoder = SmolVocoder().eval()
    with torch.no_grad():
        vocoder.head.weight.mul_(2)  # as loud as speech
    return vocoder


def made_up(num_frames: int, seed: int = 0) -> dict[str, Tensor]:
    """Frames with voiced and unvoiced stretches."""
    generator = torch.Generator().manual_seed(seed)
    pitch = (
        150
        + 100 * torch.sin(torch.arange(num_frames) / 9)
        + 200 * (torch.arange(num_frames) % 50 - 40).clamp(max=0) / 40
    )
    return {"cond": torch.randn(num_frames, 130, generator=generator), "f0": pitch}


@pytest.mark.parametrize("chunk", [1, 7, 32, 100])
def test_chunks_of_any_size_add_up_to_the_whole(untrained: SmolVocoder, chunk: int) -> None:
    item = made_up(100)
    (expected,) = decode(untrained, [item], [EVERYTHING])
    (samples,) = decode(untrained, [item], [chunk])
    assert len(expected) == 100 * untrained.hop
    assert float(expected.abs().max()) > 0.01
    torch.testing.assert_close(samples, expected, atol=1e-4, rtol=0)


@pytest.mark.parametrize("num_frames", [1, 2, 3, 4, 5, 26, 27, 28, 64])
@pytest.mark.parametrize("chunk", [1, 32])
def test_samples_are_frames_times_hop_for_items_of_any_length(
    untrained: SmolVocoder, num_frames: int, chunk: int
) -> None:
    item = made_up(num_frames)
    (expected,) = decode(untrained, [item], [EVERYTHING])
    (samples,) = decode(untrained, [item], [chunk])
    assert len(samples) == num_frames * untrained.hop
    torch.testing.assert_close(samples, expected, atol=1e-4, rtol=0)


def test_an_item_without_frames_has_no_samples(untrained: SmolVocoder) -> None:
    (samples,) = decode(untrained, [made_up(0)], [32])
    assert samples.shape == (0,)


def test_items_decoded_together_in_chunks_of_their_own_equal_themselves_alone(untrained: SmolVocoder) -> None:
    items = [made_up(90, 1), made_up(33, 2), made_up(7, 3), made_up(0, 4)]
    together = decode(untrained, items, [32, 5, 1, 9])
    for i, (item, samples) in enumerate(zip(items, together, strict=True)):
        (alone,) = decode(untrained, [item], [EVERYTHING], seed=i)
        torch.testing.assert_close(samples, alone, atol=1e-4, rtol=0)


def test_the_context_is_exactly_as_long_as_the_network_sees(untrained: SmolVocoder) -> None:
    item = made_up(120)
    with torch.inference_mode():
        before = untrained.parts([whole(untrained, item)])[0]
        item["cond"] = item["cond"].clone()
        item["cond"][60] += 10
        after = untrained.parts([whole(untrained, item)])[0]
    changed = (after - before).abs().amax(1).nonzero().flatten()
    assert changed.min() == 60 - CONTEXT
    assert changed.max() == 60 + CONTEXT


def test_the_pitch_may_come_with_the_context_of_the_other_port(untrained: SmolVocoder) -> None:
    item = made_up(60)

    def first(pitch: Tensor) -> Tensor:
        state = untrained.open(generator=torch.Generator().manual_seed(0))
        frames = {"cond": item["cond"][: 32 + 27], "f0": pitch}
        return untrained.decode([DecoderRows(state=state, frames=frames, left=0, new=32, right=27, is_last=False)])[0]

    assert torch.equal(first(item["f0"][:32]), first(item["f0"][: 32 + 27]))


def test_frames_of_a_wrong_shape_are_a_clear_error(untrained: SmolVocoder) -> None:
    item = made_up(8)
    for frames, message in (
        ({"cond": item["cond"][:5], "f0": item["f0"]}, r"'cond' must have shape \[0 \+ 8 \+ 0, 130\], got \[5, 130\]"),
        ({"cond": item["cond"], "f0": item["f0"][:5]}, r"'f0' must have shape \[8\], got \[5\]"),
    ):
        with pytest.raises(ValueError, match=message):
            untrained.decode([whole_of(untrained, frames, 8)])


def whole_of(vocoder: SmolVocoder, frames: Mapping[str, Tensor], new: int) -> DecoderRows:
    return DecoderRows(
        state=vocoder.open(generator=torch.Generator()), frames=frames, left=0, new=new, right=0, is_last=True
    )


def test_the_same_seed_gives_the_same_samples_and_another_seed_others(untrained: SmolVocoder) -> None:
    item = made_up(40)
    (first,), (same,), (other,) = (decode(untrained, [item], [32], seed=seed) for seed in (1, 1, 2))
    assert torch.equal(first, same)
    assert not torch.allclose(first, other, atol=1e-3)


def test_sound_leaves_four_frames_behind_what_came_in(untrained: SmolVocoder) -> None:
    item = made_up(60)
    state = untrained.open(generator=torch.Generator().manual_seed(0))
    frames = {"cond": item["cond"][:59], "f0": item["f0"][:32]}
    (samples,) = untrained.decode([DecoderRows(state=state, frames=frames, left=0, new=32, right=27, is_last=False)])
    assert len(samples) == (32 - 4) * untrained.hop


class PublishedNoise:
    """Stands in for numpy's generator in the package's synthesis, with the noise that we draw."""

    def __init__(self, seed: int, num_frames: int) -> None:
        noise = frame_noise(torch.Generator().manual_seed(seed), num_frames)
        self.values = noise.permute(2, 0, 1).reshape(601, -1).numpy()  # real and imaginary side by side

    def standard_normal(self, shape: Sequence[int], dtype: type) -> np.ndarray:
        assert self.values.shape == tuple(shape)
        return np.ascontiguousarray(self.values.astype(dtype))


@pytest.mark.weights("hibari")
@pytest.mark.parametrize("sentence", SENTENCES)
def test_samples_equal_the_published_synthesis(
    sentence: str, acoustic: SmolAcoustic, vocoder: SmolVocoder, lexicon: SmolLexicon
) -> None:
    from hibari import dsp

    (features,) = acoustic.encode([phonemes(lexicon, sentence)])
    frames = len(features["f0"])
    (samples,) = decode(vocoder, [features], [32], seed=5)
    with torch.inference_mode():
        parts = vocoder.parts([whole(vocoder, features)])[0].unflatten(-1, (5, 601)).permute(1, 2, 0).numpy()
    expected = dsp.synth(*parts, features["f0"].numpy(), PublishedNoise(5, frames))
    assert np.abs(expected).max() > 0.1
    np.testing.assert_allclose(samples.numpy(), expected, atol=1e-4)
