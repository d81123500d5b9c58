"""Features are given again only to equal inputs of the same component with the same weights, within bytes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

import omniflow
from omniflow import Engine, Limits
from omniflow.bind import bind
from omniflow.caches import Origin
from omniflow.features import FeatureCache
from tests.runtime.caches.programs import paint
from tests.runtime.program import drain


class Counting:
    """Passes on to an encoder and counts its rows; breaks for prompts of a length."""

    def __init__(self, encoder: Any, breaks_at: int = -1) -> None:
        self.encoder = encoder
        self.breaks_at = breaks_at
        self.num_rows = 0

    def encode(self, rows: Sequence[Mapping[str, Tensor]]) -> list[Mapping[str, Tensor]]:
        self.num_rows += len(rows)
        if any(len(row["tokens"]) == self.breaks_at for row in rows):
            raise RuntimeError("the encoder broke")
        found: list[Mapping[str, Tensor]] = self.encoder.encode(rows)
        return found


def load(*, size: str | None = "64 KiB", breaks_at: int = -1, limits: Limits | None = None) -> tuple[Engine, Counting]:
    schedule = paint(size=size)
    counting = Counting(bind(schedule).experts["encoder"], breaks_at)
    return omniflow.load(schedule, experts={"encoder": counting}, limits=limits), counting


def read(running: Engine, prompt: str) -> Tensor:
    result = running.run({"prompt": prompt})
    assert result.state == "done", result.error
    features: Tensor = result.outputs["yes"]
    return features


def test_a_prompt_that_was_read_before_is_not_read_again_and_gives_the_same() -> None:
    running, counting = load()
    fresh, every = load(size=None)
    for prompt in ("A cat", "rain", "A cat"):
        assert torch.equal(read(running, prompt), read(fresh, prompt))
    assert every.num_rows == 6
    assert counting.num_rows == 3  # two prompts and the empty negative one
    assert running.live == 0


def test_equal_prompts_at_once_are_computed_once() -> None:
    running, counting = load()
    ids = [running.submit({"prompt": "A cat", "negative": "A cat"}) for _ in range(4)]
    drain(running)
    results = [running.result(i) for i in ids]
    assert counting.num_rows == 1
    found = [result.outputs[name] for result in results if result for name in ("yes", "no")]
    assert len(found) == 8
    assert all(torch.equal(each, found[0]) for each in found)
    taken = [
        result.record["nodes"][node]["cached"]
        for result in results
        if result
        for node in ("read_prompt", "read_negative")
    ]
    assert sorted(taken) == [0, *[1] * 7]


def test_of_equal_prompts_that_break_the_encoder_each_fails_and_others_do_not() -> None:
    running, _ = load(breaks_at=5)
    ids = [running.submit({"prompt": prompt}) for prompt in ("12345", "rain", "12345")]
    drain(running)
    states = [str(result.state) for i in ids if (result := running.result(i))]
    assert states == ["failed", "done", "failed"]
    assert len(running.bound.stores.features["kept"]) == 2


def test_other_weights_drop_what_their_own_component_gave_and_nothing_else() -> None:
    running, counting = load()
    cache = running.bound.stores.features["kept"]
    read(running, "A cat")
    kept = len(cache)
    running.invalidate("tokenizer")
    assert len(cache) == kept == 2
    other = omniflow.load(running.schedule, experts={"encoder": counting})
    read(other, "A cat")
    running.invalidate("encoder")
    assert len(cache) == 0
    before = counting.num_rows
    read(running, "A cat")
    read(other, "A cat")  # another engine, the same expert
    assert counting.num_rows == before + 4


def test_without_a_cache_in_the_card_nothing_is_kept() -> None:
    running, counting = load(size=None)
    read(running, "A cat")
    read(running, "A cat")
    assert counting.num_rows == 4
    assert running.bound.stores.num_kept == 0


def test_a_card_with_less_room_keeps_less() -> None:
    running, counting = load(size="200")
    read(running, "A cat in the rain")
    assert len(running.bound.stores.features["kept"]) == 1  # of the empty prompt
    read(running, "A cat in the rain")
    assert counting.num_rows == 3


HERE = Origin(card="c", component="a", weights="w", dtype="float32")


def test_what_is_kept_stays_within_bytes_and_the_longest_unused_goes_first() -> None:
    kept = FeatureCache(max_bytes=100)
    inputs = [{"x": torch.tensor([i])} for i in range(5)]
    for each in inputs[:3]:
        kept.keep(HERE, each, {"y": torch.zeros(6)})  # 8 + 24 bytes
    assert (len(kept), kept.num_bytes) == (3, 96)
    assert kept.find(HERE, inputs[0]) is not None
    kept.keep(HERE, inputs[3], {"y": torch.zeros(6)})
    assert kept.find(HERE, inputs[1]) is None
    assert kept.find(HERE, inputs[0]) is not None
    kept.keep(HERE, inputs[4], {"y": torch.zeros(1000)})
    assert (len(kept), kept.num_bytes) == (3, 96)


def test_a_row_of_a_batch_is_kept_without_the_rest_of_its_batch() -> None:
    kept = FeatureCache(max_bytes=1000)
    kept.keep(HERE, {"x": torch.tensor([1])}, {"y": torch.zeros(100, 2)[3]})
    found = kept.find(HERE, {"x": torch.tensor([1])})
    assert found is not None
    assert found["y"].untyped_storage().nbytes() == 8


def test_a_hit_needs_the_origin_the_type_the_shape_and_every_element() -> None:
    kept = FeatureCache(max_bytes=1000)
    inputs = {"x": torch.tensor([1.0, 2.0]), "text": "a"}
    kept.keep(HERE, inputs, {"y": torch.ones(1)})
    assert kept.find(HERE, {"x": torch.tensor([1.0, 2.0]), "text": "a"}) is not None
    for change in ({"card": "d"}, {"component": "b"}, {"weights": "v"}, {"dtype": "bfloat16"}):
        assert kept.find(replace(HERE, **change), inputs) is None
    for other in (
        {"x": torch.tensor([1.0, 3.0])},
        {"x": torch.tensor([[1.0, 2.0]])},
        {"x": torch.tensor([1.0, 2.0], dtype=torch.float64)},
        {"text": "b"},
        {"text": ["a"]},
        {"z": 1},
    ):
        assert kept.find(HERE, {**inputs, **other}) is None


def test_equal_digests_of_unequal_content_are_no_hit(monkeypatch: Any) -> None:
    monkeypatch.setattr("omniflow.features._key", lambda origin, inputs: b"the same")
    kept = FeatureCache(max_bytes=1000)
    kept.keep(HERE, {"x": torch.tensor([1])}, {"y": torch.ones(1)})
    assert kept.find(HERE, {"x": torch.tensor([1])}) is not None
    assert kept.find(HERE, {"x": torch.tensor([2])}) is None
    assert kept.find(replace(HERE, weights="v"), {"x": torch.tensor([1])}) is None


@given(st.lists(st.tuples(st.sampled_from("kfd"), st.integers(0, 6)), max_size=40))
def test_bytes_are_those_counted_anew(steps: list[tuple[str, int]]) -> None:
    kept = FeatureCache(max_bytes=300)
    for what, number in steps:
        origin = replace(HERE, component=str(number % 2))
        inputs = {"x": torch.arange(number)}
        if what == "k":
            kept.keep(origin, inputs, {"y": torch.arange(3 * number)})
        elif what == "d":
            kept.drop(origin.component)
        elif (found := kept.find(origin, inputs)) is not None:
            assert torch.equal(found["y"], torch.arange(3 * number))
        assert kept.num_bytes == kept.recount() <= 300
