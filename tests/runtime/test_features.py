"""Features are given again only to equal inputs of the same component with the same weights, within bytes."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import torch

import omniflow
from omniflow import Engine, Limits, Schedule
from omniflow.features import FeatureCache

PROGRAM = Path(__file__).parents[2] / "specs" / "null" / "image.program.yaml"


@cache
def program() -> Schedule:
    return omniflow.compile(PROGRAM)


def picture(running: Engine, prompt: str) -> torch.Tensor:
    result = running.run({"prompt": prompt})
    assert result.state == "done", result.error
    image: torch.Tensor = result.outputs["image"]
    return image


def encodings(running: Engine) -> int:
    totals = running.metrics.totals
    return sum(
        n
        for (name, labels), n in totals.items()
        if name == "omniflow_units_total" and ("kind", "encoder_chunk") in labels
    )


def test_a_prompt_that_was_read_before_is_not_read_again_and_gives_the_same() -> None:
    running = omniflow.load(program(), limits=Limits(feature_bytes=1 << 20))
    fresh = omniflow.load(program())
    for prompt in ("A cat", "rain", "A cat"):
        assert torch.equal(picture(running, prompt), picture(fresh, prompt))
    assert encodings(fresh) == 6
    assert encodings(running) == 3  # two prompts and the empty negative one
    assert running.features.num_hits == 3


def test_other_weights_forget_their_own_component_alone() -> None:
    running = omniflow.load(program(), limits=Limits(feature_bytes=1 << 20))
    picture(running, "A cat")
    kept = len(running.features)
    running.weights_changed("denoiser")
    assert len(running.features) == kept
    running.weights_changed("encoder")
    assert len(running.features) == 0
    picture(running, "A cat")
    assert encodings(running) == 4


def test_what_is_kept_stays_within_bytes_and_the_longest_unused_goes_first() -> None:
    kept = FeatureCache(max_bytes=100)
    inputs = [{"x": torch.tensor([i])} for i in range(5)]
    for each in inputs[:3]:
        kept.keep("a", each, {"y": torch.zeros(6)})  # 8 + 24 bytes
    assert (len(kept), kept.num_bytes) == (3, 96)
    assert kept.find("a", inputs[0]) is not None
    kept.keep("a", inputs[3], {"y": torch.zeros(6)})
    assert kept.find("a", inputs[1]) is None
    assert kept.find("a", inputs[0]) is not None
    kept.keep("a", inputs[4], {"y": torch.zeros(1000)})
    assert (len(kept), kept.num_bytes) == (3, 96)


def test_a_hit_needs_the_component_the_dtype_the_shape_and_every_element() -> None:
    kept = FeatureCache(max_bytes=1000)
    inputs = {"x": torch.tensor([1.0, 2.0])}
    kept.keep("a", inputs, {"y": torch.ones(1)})
    assert kept.find("a", {"x": torch.tensor([1.0, 2.0])}) is not None
    for component, other in (
        ("b", inputs),
        ("a", {"x": torch.tensor([1.0, 3.0])}),
        ("a", {"x": torch.tensor([[1.0, 2.0]])}),
        ("a", {"x": torch.tensor([1.0, 2.0], dtype=torch.float64)}),
        ("a", {"z": torch.tensor([1.0, 2.0])}),
    ):
        assert kept.find(component, other) is None
