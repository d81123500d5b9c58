"""Wrong inputs are one clear error before anything runs."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch

import omniflow
from omniflow import BindError, BusyError, InputError, Limits
from omniflow.bind import bind
from omniflow.inputs import check_inputs
from tests.runtime.program import engine, speech
from tests.schedules import edge, expert, node, schedule


@pytest.mark.parametrize(
    ("inputs", "said"),
    [
        ({}, "input prompt (text) is missing"),
        ({"promt": "x"}, "no input promt; did you mean prompt?"),
        ({"prompt": "x", "zzz": 1}, "no input zzz; it has prompt"),
        ({"prompt": 3}, "input prompt must be text: got int"),
        ({"prompt": None}, "input prompt must be text: got NoneType"),
        ({"prompt": "caf\udce9"}, "input prompt must be text: it is not valid UTF-8"),
        ("x", "inputs are a mapping of names to values: got str"),
    ],
)
def test_inputs_that_do_not_fit_are_named(inputs: dict[str, Any], said: str) -> None:
    running = engine()
    with pytest.raises(InputError) as error:
        running.submit(inputs)
    assert said in str(error.value)
    assert "\n" not in str(error.value)
    assert running.is_idle


@pytest.mark.parametrize("seed", [-1, 1.5, "a", 2**63])
def test_a_seed_that_is_none_is_refused(seed: Any) -> None:
    running = engine()
    with pytest.raises(InputError, match="seed must be a whole number from 0"):
        running.submit({"prompt": "x"}, seed=seed)
    assert running.is_idle


@pytest.mark.parametrize(
    ("params", "said"),
    [
        ({"think.temprature": 1}, "did you mean `think.temperature`?"),
        ({"thinc.temperature": 1}, "did you mean `think.temperature`?"),
        ({"temperature": 1}, "has no param temperature"),
    ],
)
def test_params_that_do_not_fit_are_named(params: dict[str, Any], said: str) -> None:
    with pytest.raises(InputError, match=said.replace("?", r"\?")):
        engine().submit({"prompt": "x"}, params=params)


def test_tensors_are_checked_by_dtype_axes_and_sizes() -> None:
    program = schedule(
        inputs={"frames": "act[F, 3]", "ids": "tokens[T]"},
        outputs={"ids": ("strip.tokens", "tokens[T]")},
        nodes=[node("strip", "op.strip", inputs={"tokens": "tokens[T]"}, outputs={"tokens": "tokens[T]"})],
        edges=[edge("ids -> strip.tokens", "tokens[T]")],
    )
    good = check_inputs(program, {"frames": [[1, 2, 3]], "ids": [1, 2]})
    assert good["frames"].dtype == torch.float32
    assert good["ids"].dtype == torch.int64
    for bad in ([1, 2, 3], [[1, 2]], "x", [["a", "b", "c"]]):
        with pytest.raises(InputError, match="frames"):
            check_inputs(program, {"frames": bad, "ids": [1]})


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"ids": [1e308]}, "input ids must be tokens"),
        ({"ids": [10**30]}, "input ids must be tokens"),
        ({"ids": [0.5]}, "it has numbers that are not whole"),
        ({"ids": [float("nan")]}, "it has numbers that are not whole"),
        ({"ids": [3, -1]}, "it has id -1, and ids are 0 to 8"),
        ({"ids": [3, 9]}, "it has id 9, and ids are 0 to 8"),
        ({"frames": [[1.0, float("nan"), 2.0]]}, "it has values that are infinite or no numbers"),
        ({"frames": torch.tensor([[float("inf"), 1.0, 2.0]])}, "it has values that are infinite or no numbers"),
        ({"frames": [[10**400, 1, 2]]}, "input frames must be act"),
        ({"frames": [None]}, "input frames must be act"),
    ],
)
def test_values_that_a_tensor_of_the_type_cannot_hold_are_named(given: dict[str, Any], said: str) -> None:
    program = schedule(
        inputs={"frames": "act[F, 3]", "ids": "tokens[T]"},
        outputs={"ids": ("strip.tokens", "tokens[T]")},
        nodes=[node("strip", "op.strip", inputs={"tokens": "tokens[T]"}, outputs={"tokens": "tokens[T]"})],
        edges=[edge("ids -> strip.tokens", "tokens[T]")],
    )
    frames, ids = program.inputs
    program = replace(program, inputs=(frames, replace(ids, type=replace(ids.type, vocabulary=9))))
    good = {"frames": [[1.0, 2.0, 3.0]], "ids": [1.0, 8]}
    assert check_inputs(program, good)["ids"].tolist() == [1, 8]
    with pytest.raises(InputError, match=said) as error:
        check_inputs(program, {**good, **given})
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("kind", "value", "said"),
    [
        ("scalar", "7", "must be scalar: got str"),
        ("scalar", [], "must be scalar: got list"),
        ("scalar", None, "must be scalar: got NoneType"),
        ("scalar", float("nan"), "must be scalar: it is not a finite number"),
        ("scalar", 10**400, "must be scalar: it is not a finite number"),
        ("scalar", 1e308, "must be scalar: it is not a finite number"),
        ("json", [{"content": "\ud800"}], "must be json: it has a text that is not valid UTF-8"),
        ("json", {"\udfff": 1}, "must be json: it has a text that is not valid UTF-8"),
    ],
)
def test_numbers_and_json_that_nobody_could_read_are_named(kind: str, value: Any, said: str) -> None:
    program = schedule(inputs={"x": kind}, outputs={}, nodes=[], edges=[])
    for good in (3, 0.5, True) if kind == "scalar" else ([{"content": "é"}], None, "text"):
        assert check_inputs(program, {"x": good}) == {"x": good}
    with pytest.raises(InputError, match=f"input x {said}"):
        check_inputs(program, {"x": value})


def test_a_queue_has_an_end() -> None:
    running = engine(limits=Limits(running=1, queued=2))
    for _ in range(2):
        running.submit({"prompt": "x"})
    with pytest.raises(BusyError, match="2 requests are waiting"):
        running.submit({"prompt": "x"})


@pytest.mark.parametrize(("count", "device", "has"), [(0, "cuda", "no"), (2, "cuda:2", "2")])
def test_a_device_that_this_machine_lacks_is_named_before_anything_is_loaded(
    count: int, device: str, has: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch.cuda, "device_count", lambda: count)
    program = speech()
    away = replace(program, experts=tuple(replace(expert, device=device) for expert in program.experts))
    with pytest.raises(BindError, match=rf"card.yaml:\d+:3: component \w+ is to run on {device}, .* has {has} CUDA"):
        omniflow.load(away)


def test_an_expert_that_nobody_has_is_named_with_its_place() -> None:
    program = schedule(
        inputs={"text": "text"},
        outputs={"tokens": ("cut.tokens", "tokens[T]")},
        nodes=[node("cut", "op.tokenize", expert="tok", inputs={"text": "text"}, outputs={"tokens": "tokens[T]"})],
        edges=[edge("text -> cut.text", "text")],
        experts=[expert("tok", "no.such")],
    )
    with pytest.raises(BindError, match=r"hand.program.yaml:2:3: component tok uses no.such, which is not installed"):
        omniflow.load(program)


def test_an_expert_of_the_wrong_role_is_refused_before_anything_runs() -> None:
    with pytest.raises(BindError, match=r"speech.program.yaml:14:3: node think: ar_decode cannot bind thinker"):
        omniflow.load(speech(), experts={"thinker": object()})


def test_an_expert_is_loaded_once_per_process() -> None:
    first, second = bind(speech()), bind(speech())
    assert first.experts["thinker"] is second.experts["thinker"]


def test_only_what_the_outputs_need_is_loaded() -> None:
    names = set(bind(speech(("text",))).experts)
    assert names == {"thinker", "tokenizer"}


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"priority": "high"}, "priority is a whole number, not 'high'"),
        ({"priority": float("nan")}, "priority is a whole number, not nan"),
        ({"deadline": float("nan")}, "deadline is a number of seconds, not nan"),
        ({"deadline": "soon"}, "deadline is a number of seconds, not 'soon'"),
        ({"outputs": [1]}, "has no output 1"),
        ({"session": "mine"}, "there is no session mine"),
        ({"params": [("a.b", 1)]}, "params are a mapping"),
        ({"params": {1: 2}}, "has no param 1"),
    ],
)
def test_what_nothing_can_be_ordered_or_found_by_is_refused_when_it_is_submitted(
    given: dict[str, Any], says: str
) -> None:
    running = engine()
    with pytest.raises(InputError, match=says):
        running.submit({"prompt": "Hm"}, **given)
    assert running.is_idle


@pytest.mark.parametrize(
    "name", ["width", "step_tokens", "min_prefill", "running", "queued", "sessions", "unit_seconds"]
)
def test_a_limit_with_which_nothing_could_run_is_refused(name: str) -> None:
    none: Any = {name: 0}
    with pytest.raises(ValueError, match=f"the limit {name} is 0"):
        Limits(**none)


def test_a_profile_that_is_none_is_refused() -> None:
    with pytest.raises(BindError, match="there is no profile rolout; known profiles are serve, rollout, test"):
        engine(profile="rolout")
