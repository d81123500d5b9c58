"""The acoustic model and the network of the vocoder against the published graph, and rows against themselves alone."""

from __future__ import annotations

import importlib.util
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor

from omniflow.experts.smol_acoustic import SmolAcoustic
from omniflow.experts.smol_alphabet import SYMBOLS
from omniflow.experts.smol_lexicon import SmolLexicon
from omniflow.experts.smol_vocoder import SmolVocoder
from omniflow.roles import DecoderRows

pytestmark = pytest.mark.weights("hibari")

SENTENCES = ("həlˈO ðˈɛɹ.", "ðə kˈæpəɾᵊl ʌv fɹˈæns ɪz pˈɛɹəs, ænd ɪt ɪz ɐ vˈɛɹi ˈOld sˈɪɾi.", "jˈɛs!")


def phonemes(lexicon: SmolLexicon, sentence: str) -> dict[str, Tensor]:
    return {"phonemes": torch.tensor(lexicon.to_acoustic([SYMBOLS[sound] for sound in sentence]))}


def test_rows_in_a_batch_equal_the_same_rows_alone(acoustic: SmolAcoustic, lexicon: SmolLexicon) -> None:
    rows = [phonemes(lexicon, sentence) for sentence in SENTENCES]
    for together, row in zip(acoustic.encode(rows), rows, strict=True):
        (alone,) = acoustic.encode([row])
        torch.testing.assert_close(together["cond"], alone["cond"], atol=1e-5, rtol=1e-5)
        torch.testing.assert_close(together["f0"], alone["f0"], atol=1e-3, rtol=1e-5)


def test_frames_are_of_one_count_and_two_to_a_step(acoustic: SmolAcoustic, lexicon: SmolLexicon) -> None:
    (features,) = acoustic.encode([phonemes(lexicon, SENTENCES[0])])
    frames = len(features["f0"])
    assert features["cond"].shape == (frames, 130)
    assert frames % 2 == 0
    assert 60 < frames < 200  # about a second
    assert 100 < float(features["f0"].max()) < 500


def test_twice_the_speed_is_about_half_as_long(acoustic: SmolAcoustic, lexicon: SmolLexicon) -> None:
    row = phonemes(lexicon, SENTENCES[1])
    slow = len(acoustic.encode([row])[0]["f0"])
    acoustic.speed = 2.0
    try:
        fast = len(acoustic.encode([row])[0]["f0"])
    finally:
        acoustic.speed = 1.0
    assert 0.4 < fast / slow < 0.65


def test_ids_outside_the_voice_are_a_clear_error(acoustic: SmolAcoustic) -> None:
    with pytest.raises(ValueError, match="must be 0 to 177"):
        acoustic.encode([{"phonemes": torch.tensor([0, 178, 0])}])
    with pytest.raises(ValueError, match="1 to 2000 phonemes"):
        acoustic.encode([{"phonemes": torch.tensor([], dtype=torch.int64)}])


def published(ids: Tensor) -> Mapping[str, Tensor]:
    """What the ONNX graph of the wheel says, run by onnx's own evaluator. It quantises activations; we do not."""
    onnx_reference = pytest.importorskip("onnx.reference")
    spec = importlib.util.find_spec("hibari")
    assert spec is not None
    assert spec.submodule_search_locations
    graph = onnx_reference.ReferenceEvaluator(str(Path(spec.submodule_search_locations[0]) / "assets/hibari.onnx"))
    outputs = graph.run(None, {"ids": ids[None].numpy(), "speed": np.ones(1, np.float32)})
    names = [output.name for output in graph.proto_.graph.output]
    return {name: torch.from_numpy(array[0]) for name, array in zip(names, outputs, strict=True)}


def test_both_networks_agree_with_the_published_graph(
    acoustic: SmolAcoustic, vocoder: SmolVocoder, lexicon: SmolLexicon
) -> None:
    row = phonemes(lexicon, SENTENCES[0])
    expected = published(row["phonemes"])
    (features,) = acoustic.encode([row])
    assert len(features["f0"]) == len(expected["f0"])
    assert float((features["f0"] - expected["f0"]).abs().max()) < 4.0  # hertz, of up to 300
    with torch.inference_mode():
        parts = vocoder.parts([whole(vocoder, features)])[0].unflatten(-1, (5, 601))
    for i, name in enumerate(("lh", "theta", "ln", "lr", "phi")):
        difference = (parts[:, i].T - expected[name]).abs().mean() / expected[name].std()
        assert float(difference) < 0.03, name


def whole(vocoder: SmolVocoder, features: Mapping[str, Tensor]) -> DecoderRows:
    state = vocoder.open(generator=torch.Generator().manual_seed(0))
    return DecoderRows(state=state, frames=features, left=0, new=len(features["f0"]), right=0, is_last=True)
