"""Every request ends once, in one of four ways, for itself alone, and leaves nothing behind."""

from __future__ import annotations

import random
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest
import torch

import omniflow
from omniflow import BusyError, Limits, State
from omniflow.roles import TokenRows
from tests.runtime.faults import FaultyLanguage, FaultyVocoder, engine_with
from tests.runtime.program import PROMPTS, assert_same, drain, engine
from tests.schedules import edge, expert, node, schedule

MARK = "And the old tree near my mat, what of it?"  # the prompt that is longest, by which rows are known


def is_of_long_prompt(row: TokenRows, *, cached: int = 24) -> bool:
    return row.sequence.num_cached >= cached


@pytest.mark.parametrize("fault", ["raise", "nan", "shape", "missing"])
def test_a_bad_row_fails_its_request_and_changes_no_bit_of_its_neighbours(fault: str) -> None:
    running = engine_with("thinker", lambda real: FaultyLanguage(real, is_of_long_prompt, fault))
    prompts = [MARK, "Hm", "Hm hm"]
    ids = [running.submit({"prompt": prompt}, params={"think.max_tokens": 12}) for prompt in prompts]
    drain(running)
    failed, *others = [running.result(request) for request in ids]
    assert failed is not None
    assert failed.state is State.FAILED
    reference = engine()
    for prompt, result in zip(prompts[1:], others, strict=True):
        want = reference.run({"prompt": prompt}, params={"think.max_tokens": 12})
        assert result is not None
        assert result.state is State.DONE
        assert result.outputs["text"] == want.outputs["text"]
        assert torch.equal(result.outputs["audio"], want.outputs["audio"])
    assert running.live == 0


@pytest.mark.parametrize(
    ("fault", "said"),
    [
        ("raise", "RuntimeError: the expert broke"),
        ("nan", "logits that are not numbers"),
        ("shape", "logits [311], not [312]"),
        ("missing", "no logits"),
        ("count", "0 results for 1 rows"),
    ],
)
def test_the_error_names_place_node_and_unit(fault: str, said: str) -> None:
    running = engine_with("thinker", lambda real: FaultyLanguage(real, partial(is_of_long_prompt, cached=12), fault))
    result = running.run({"prompt": "Hm"})
    assert result.state is State.FAILED
    assert result.error is not None
    assert "speech.program.yaml:14:3: node think: unit 9" in result.error
    assert (
        said.replace("311", str(running.bound.experts["thinker"].vocab_size - 1)).replace(
            "312", str(running.bound.experts["thinker"].vocab_size)
        )
        in result.error
    )
    assert "\n" not in result.error


@pytest.mark.parametrize("fault", ["raise", "nan", "shape"])
def test_a_vocoder_that_breaks_leaves_what_came_before_it(fault: str) -> None:
    running = engine_with("vocoder", lambda real: FaultyVocoder(real, fault, 2))
    result = running.run({"prompt": PROMPTS[0]})
    assert result.state is State.FAILED
    assert result.error is not None
    assert "node wave: unit 2" in result.error
    assert 0 < len(result.outputs["audio"]) <= 64 * 300
    assert not result.record["outputs"]["audio"]["whole"]
    assert running.live == 0


def test_a_cancelled_request_stops_at_the_next_unit() -> None:
    running = engine(trace=True)
    request = running.submit({"prompt": PROMPTS[0]})
    for _ in range(30):
        running.step()
    assert running.trace is not None
    before = len(running.trace.units)
    running.cancel(request)
    running.step()
    result = running.result(request)
    assert result is not None
    assert result.state is State.CANCELLED
    assert len(running.trace.units) == before
    assert running.live == 0
    assert running.is_idle


def test_a_cancel_at_any_unit_frees_everything() -> None:
    draw = random.Random(11)
    for _ in range(25):
        running = engine(limits=Limits(running=3))
        ids = [running.submit({"prompt": prompt}) for prompt in PROMPTS]
        for _ in range(draw.randrange(120)):
            running.step()
        for request in ids:
            running.cancel(request)
        running.step()
        assert running.live == 0
        running.bound.pools.check()
        states = [result.state for request in ids if (result := running.result(request)) is not None]
        assert len(states) == len(ids)
        assert set(states) <= {State.DONE, State.CANCELLED}


def test_cancelling_twice_or_late_or_somebody_unknown_does_nothing() -> None:
    running = engine()
    request = running.submit({"prompt": "Hm"})
    running.cancel(request)
    running.cancel(request)
    running.cancel(12345)
    drain(running)
    result = running.result(request)
    assert result is not None
    assert result.state is State.CANCELLED
    running.cancel(request)
    assert_same(running.run({"prompt": PROMPTS[1]}), PROMPTS[1])
    assert running.result(request) is None


def test_a_deadline_ends_its_request_alone() -> None:
    running = engine()
    late = running.submit({"prompt": PROMPTS[0]}, deadline=running.schedule.critical_seconds)
    other = running.submit({"prompt": PROMPTS[1]}, deadline=1e6)
    for _ in range(5):
        running.step()
    time.sleep(running.schedule.critical_seconds)
    drain(running)
    result = running.result(late)
    assert result is not None
    assert (result.state, result.error) == (State.CANCELLED, "its deadline passed")
    assert_same(running.result(other), PROMPTS[1])


def test_a_deadline_that_cannot_be_kept_is_refused_at_once_with_need_and_have() -> None:
    running = engine()
    request = running.submit({"prompt": PROMPTS[0]}, deadline=1e-6)
    assert running.is_idle
    result = running.result(request)
    assert result is not None
    assert result.state is State.REFUSED
    assert result.error is not None
    assert result.error.startswith("it needs ")
    assert result.error.endswith(" s by the schedule's costs and has 1e-06 s")


def test_higher_priorities_go_first_and_lower_ones_are_not_forgotten() -> None:
    running = engine(limits=Limits(running=1))
    low = running.submit({"prompt": "Hm"})
    high = [running.submit({"prompt": "Hm"}, priority=1) for _ in range(40)]
    order: list[int] = []
    while not running.is_idle:
        running.step()
        order += [request for request in [low, *high] if running.result(request) is not None]
    assert order[0] == high[0]
    assert [request for request in order if request != low] == high
    assert order.index(low) == 16


def test_waiting_inputs_are_bounded_by_bytes() -> None:
    running = engine(limits=Limits(running=1, queued_bytes=100))
    running.submit({"prompt": "x" * 60})
    with pytest.raises(BusyError, match="hold 60 bytes of inputs and this one brings 50, more than 100 together"):
        running.submit({"prompt": "x" * 50})
    running.submit({"prompt": "x" * 40})


def test_a_request_ends_once() -> None:
    running = engine_with("thinker", lambda real: FaultyLanguage(real, lambda row: row.sequence.num_cached > 15, "nan"))
    ids = [running.submit({"prompt": prompt}) for prompt in PROMPTS]
    running.cancel(ids[2])
    seen: dict[int, list[State]] = {request: [] for request in ids}
    while not running.is_idle:
        running.step()
        for request in ids:
            result = running.result(request)
            if result is not None:
                seen[request].append(result.state)
    assert all(len(states) == 1 for states in seen.values())


def test_a_request_for_more_cache_than_there_is_says_need_and_have() -> None:
    result = engine().run({"prompt": "Hm"}, params={"think.max_tokens": 10_000_000})
    assert result.state is State.REFUSED
    assert result.error is not None
    assert "10000" in result.error
    assert "65536" in result.error


def test_requests_wait_for_cache_and_all_get_through() -> None:
    running = engine()
    ids = [running.submit({"prompt": prompt}, params={"think.max_tokens": 30_000}) for prompt in PROMPTS * 2]
    drain(running)
    for request in ids:
        result = running.result(request)
        assert result is not None
        assert result.state is State.DONE, result.error
    assert running.live == 0
    running.bound.pools.check()


class Uneven:
    """An encoder whose features of an item are as wide as it has been called often."""

    def __init__(self, expert: object) -> None:
        self.num_calls = 0

    def encode(self, rows: Sequence[Mapping[str, torch.Tensor]]) -> list[dict[str, torch.Tensor]]:
        self.num_calls += 1
        return [{"embeds": torch.zeros(2, self.num_calls)} for _ in rows]


def test_an_output_whose_pieces_do_not_fit_together_fails_its_request_alone() -> None:
    row, rows = "act[T, D]", "act[N*, T, D]"
    program = schedule(
        inputs={"prompt": "text", "items": "tokens[N*, T]"},
        outputs={"features": ("join.samples", row), "text": ("say.text", "text")},
        nodes=[
            node("see", "loop.encode", expert="eyes", each=True, inputs={"tokens": "tokens[N*, T]"},
                 outputs={"embeds": rows}),
            node("join", "op.join", inputs={"items": rows}, outputs={"samples": row}, attributes={"gap": 0}),
            node("cut", "op.tokenize", expert="tok", inputs={"text": "text"}, outputs={"tokens": "tokens[P]"}),
            node("say", "op.detokenize", expert="tok", inputs={"tokens": "tokens[P]"}, outputs={"text": "text"}),
        ],
        edges=[
            edge("items ~> see.tokens", "tokens[N*, T]"),
            edge("see.embeds ~> join.items", rows),
            edge("prompt -> cut.text", "text"),
            edge("cut.tokens ~> say.tokens", "tokens[P]"),
        ],
        experts=[expert("eyes", "given"), expert("tok", "null.tokenizer")],
    )  # fmt: skip
    running = omniflow.load(program, experts={"eyes": Uneven(None)}, limits=Limits(width=1))
    bad = running.submit({"prompt": "Hm", "items": [torch.ones(2), torch.ones(2)]})
    good = running.submit({"prompt": "Hm", "items": []})
    drain(running)
    failed, done = running.result(bad), running.result(good)
    assert failed is not None
    assert done is not None
    assert failed.state is State.FAILED
    assert "output features: its pieces do not fit together: RuntimeError: Sizes of tensors" in str(failed.error)
    assert set(failed.outputs) == {"text"}
    assert failed.record["outputs"]["features"]["state"] == "failed"
    assert done.state is State.DONE, done.error
    assert failed.outputs["text"] == done.outputs["text"]
    assert 'requests_total{state="failed"} 1' in running.metrics.render(running)
    assert running.live == 0


class Reader:
    """An encoder that knows nine ids and takes four of them at most."""

    def encode(self, rows: Sequence[Mapping[str, torch.Tensor]]) -> list[dict[str, torch.Tensor]]:
        for row in rows:
            if len(row["tokens"]) > 4:
                raise ValueError("it reads 4 tokens at most")
        return [{"embeds": torch.zeros(9, 3)[row["tokens"]]} for row in rows]


@pytest.mark.parametrize(
    ("ids", "sizes", "said"),
    [
        ([1] * 5, {}, "node see: unit 0: ValueError: it reads 4 tokens at most"),
        ([9], {}, "node see: unit 0: IndexError: index 9 is out of bounds"),
        ([3, 9], {"vocabulary": 9}, "node see: tokens has ids from 3 to 9, it knows 9"),
    ],
)
def test_what_an_encoder_does_not_take_of_a_clients_values_refuses_the_request(
    ids: list[int], sizes: dict[str, int], said: str
) -> None:
    tokens, rows = "tokens[T]", "act[T, D]"
    program = schedule(
        inputs={"ids": tokens},
        outputs={"features": ("see.embeds", rows)},
        nodes=[node("see", "loop.encode", expert="eyes", inputs={"tokens": tokens}, outputs={"embeds": rows})],
        edges=[edge("ids -> see.tokens", tokens)],
        experts=[replace(expert("eyes", "given"), sizes=sizes)],
    )
    running = omniflow.load(program, experts={"eyes": Reader()})
    assert running.run({"ids": [8, 1]}).state is State.DONE
    result = running.run({"ids": ids})
    assert result.state is State.REFUSED
    assert said in str(result.error)
    assert running.live == 0


PAINTED = {
    "card.yaml": """kind: card
id: c
components: {denoiser: {use: null.denoiser}}
loops: {paint: {kind: diffusion_denoise, binds: denoiser, steps: 3}}
""",
    "p.program.yaml": """kind: program
id: p
card: c
inputs: {embeds: "f32[P, 16]"}
outputs: {latents: paint.latents}
nodes: {paint: {loop: paint}}
edges: [embeds -> paint.condition]
""",
}


def test_numbers_that_no_model_was_made_for_are_refused_where_they_give_none_and_neighbours_go_on(
    tmp_path: Path,
) -> None:
    for name, text in PAINTED.items():
        (tmp_path / name).write_text(f"omniflow: 1\n{text}")
    schedule = omniflow.compile(tmp_path / "p.program.yaml")
    running = omniflow.load(schedule)
    embeds = [torch.arange(32.0).view(2, 16), torch.full((2, 16), 3e38), torch.full((1, 16), 1e30)]
    ids = [running.submit({"embeds": each}, seed=seed) for seed, each in enumerate(embeds)]
    drain(running)
    kept, refused, far = [running.result(request) for request in ids]
    assert kept is not None
    assert refused is not None
    assert far is not None
    assert refused.state is State.REFUSED
    said = "node paint: unit 0: values that are not numbers; input embeds has values up to 3e+38, for which no model"
    assert said in str(refused.error)
    assert far.state is State.DONE  # what a model can work on is nobody else's to judge
    assert torch.equal(kept.outputs["latents"], omniflow.load(schedule).run({"embeds": embeds[0]}).outputs["latents"])
    assert running.live == 0
