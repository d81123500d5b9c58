"""A request's own parameters: by name, by the type that is declared, before anything is loaded."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

import omniflow
from omniflow import BindError, InputError
from omniflow.commands import run as command
from omniflow.params import check_params, known_params, read_params
from tests.runtime.command import cli
from tests.runtime.program import PROGRAM, PROMPTS, engine, speech
from tests.schedules import edge, node, schedule


@pytest.mark.parametrize(
    ("written", "said"),
    [
        ({"speak.temprature": "1"}, "has no param speak.temprature; did you mean `speak.temperature`?"),
        ({"speak.temp": "1"}, "has no param speak.temp; did you mean `speak.temperature`?"),
        ({"spaek.temperature": "1"}, "did you mean `speak.temperature`?"),
        ({"speak.temperature": "warm"}, "param speak.temperature is the text warm, expected a number"),
        ({"speak.temperature": "-1"}, "the least allowed is 0"),
        ({"speak.temperature": "NaN"}, "is not a finite number"),
        ({"speak.top_k": "1.5"}, "expected a whole number"),
        ({"think.stop": "5"}, "expected a list of ids"),
        ({"think.max_tokens": "-1"}, "the least allowed is 0"),
        ({"think.max_tokens": "2 * thought.tokens"}, "param think.max_tokens cannot be read"),
        ({"think.feed_last": "yes"}, "expected true or false"),
        ({"speak.seed": "-3"}, "the least allowed is 0"),
        ({"think.seed": "9223372036854775808"}, "expected a whole number"),
        ({"speak.top_p": "0"}, "param speak.top_p is 0, the least allowed is 1e-09"),
        ({"speak.top_p": "Infinity"}, "is not a finite number"),
        ({"speak.temperature": "1" + "0" * 400}, "param speak.temperature is not a finite number"),
        ({"speak.top_k": "4294967296"}, "the most allowed is"),
        ({"think.max_tokens": "4294967296"}, "the most allowed is 2147483648"),
        ({"tokenize.system": "\ud800"}, "param tokenize.system is not valid UTF-8"),
        ({"think.suppress": "[-1]"}, "has the number -1, which is no id"),
        ({"think.suppress": "[317]"}, "param think.suppress has id 317, and thinker knows ids from 0 to 316"),
        ({"think.stop": "[2, 9999]"}, "param think.stop has id 9999, and thinker knows ids from 0 to 316"),
    ],
)
def test_a_param_that_does_not_fit_is_named_with_its_node(written: dict[str, str], said: str) -> None:
    with pytest.raises(InputError) as error:
        read_params(speech(), written)
    assert said in str(error.value)
    assert "\n" not in str(error.value)


def test_values_take_the_declared_type() -> None:
    found = check_params(speech(), read_params(speech(), {"speak.temperature": "1", "think.stop": "[3, 4]"}))
    assert found == {"speak": {"temperature": 1.0}, "think": {"stop": (3, 4)}}
    assert isinstance(found["speak"]["temperature"], float)


def test_all_that_is_wrong_is_said_at_once() -> None:
    with pytest.raises(InputError) as error:
        engine().submit({"prompt": "x"}, params={"think.top_k": -1, "nothing.here": 1})
    assert "think.top_k" in str(error.value)
    assert "nothing.here" in str(error.value)


def test_each_loop_has_its_own_temperature_and_seed() -> None:
    def said(**params: Any) -> tuple[str, torch.Tensor]:
        named = {key.replace("__", "."): value for key, value in params.items()}
        result = engine().run({"prompt": PROMPTS[0]}, params={"think.max_tokens": 24, **named})
        assert result.error is None
        return result.outputs["text"], result.outputs["audio"]

    plain, warm = said(), said(think__temperature=60.0)
    assert warm[0] != plain[0]
    assert warm[0] == said(think__temperature=60.0)[0]
    assert warm[0] != said(think__temperature=60.0, think__seed=7)[0]
    other = said(wave__seed=7)
    assert other[0] == plain[0]
    assert not torch.equal(other[1], plain[1])


def test_the_command_line_passes_params_on(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["run", str(PROGRAM), "--input", "prompt=Hm", "--out", str(tmp_path / "out")]
    assert cli(*arguments, "--param", "think.max_tokens=5") == 0
    assert json.loads((tmp_path / "out" / "run.json").read_text())["nodes"]["think"]["emitted"]["tokens"] <= 5
    capsys.readouterr()
    assert cli(*arguments, "--param", "think.max_tokns=5") == 2
    assert "did you mean `think.max_tokens`?" in capsys.readouterr().err


def test_params_are_refused_before_anything_is_loaded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(command, "load", lambda *_, **__: pytest.fail("it loaded"))
    wrong = {"think.max_tokens": "many"}
    options: dict[str, Any] = {"seed": 0, "profile": "serve", "as_json": False, "trace": False}
    assert command.run(speech(), inputs={"prompt": "x"}, params=wrong, out=tmp_path / "out", **options) == 2


@pytest.mark.parametrize("name", ["suppress", "stop"])
def test_an_id_beyond_the_loaded_experts_vocabulary_is_refused_before_anything_runs(name: str) -> None:
    running = engine()
    size = running.bound.experts["talker"].vocab_size
    said = f"param speak.{name} has id {size}, and talker knows ids from 0 to {size - 1}: its vocabulary has {size}"
    with pytest.raises(InputError, match=said):
        running.submit({"prompt": "Hm"}, params={f"speak.{name}": [2, size], "speak.min_tokens": 1})
    assert running.is_idle
    assert running.run({"prompt": "Hm"}, params={f"speak.{name}": [2, size - 1]}).state == "done"


def test_an_id_of_the_card_beyond_the_loaded_experts_vocabulary_is_refused_when_it_is_loaded() -> None:
    nodes = tuple(
        replace(node, attributes={**node.attributes, "suppress": (70,)}) if node.id == "speak" else node
        for node in speech().nodes
    )
    with pytest.raises(BindError, match=r"speech.program.yaml:18:3: node speak: suppress has id 70, and talker knows"):
        omniflow.load(replace(speech(), nodes=nodes))


def test_an_id_beyond_the_vocabulary_of_a_loop_inside_a_loop_is_refused() -> None:
    running = omniflow.load(omniflow.compile("null.frames"))
    with pytest.raises(InputError, match=r"param speak.deepen.suppress has id 32, and depth knows ids from 0 to 31"):
        running.submit({"prompt": "Air"}, params={"speak.deepen.suppress": [32]})


@pytest.mark.parametrize(
    ("params", "said"),
    [
        ({"think.suppress_from": 1, "think.suppress": [0], "think.stop": [3], "think.min_tokens": 1}, "leave no id"),
        ({"speak.suppress": list(range(44))}, "leave no id to choose"),
    ],
)
def test_params_that_leave_nothing_to_choose_are_refused(params: dict[str, Any], said: str) -> None:
    with pytest.raises(InputError, match=said):
        engine().submit({"prompt": "Hm"}, params=params)


@pytest.mark.parametrize(
    ("program", "params", "said"),
    [
        ("null.image", {"show.tile": 4, "show.overlap": 2}, "tiles of 4 cannot overlap by 2"),
        ("null.image", {"paint.levels": "unit", "paint.shift_by_length": [1, 2]}, "param paint.levels, paint.shift_by"),
        ("null.image", {"paint.guidance": 1e9}, "the most allowed is 10000"),
        ("null.image", {"paint.train_steps": 10**12}, "the most allowed is 1e"),
        ("null.frames", {"speak.deepen.max_tokens": 2}, "every frame has 3"),
        ("null.frames", {"speak.deepen.stop": [5]}, "deepen.stop would end a frame early, and every frame has 3"),
    ],
)
def test_params_that_do_not_go_together_are_refused_before_anything_runs(
    program: str, params: dict[str, Any], said: str
) -> None:
    running = omniflow.load(omniflow.compile(program))
    with pytest.raises(InputError, match=said):
        running.submit({"prompt": "Hm"}, params=params)
    assert running.is_idle


def test_what_the_program_is_made_of_cannot_be_changed_by_a_request() -> None:
    program = schedule(
        inputs={"ids": "tokens[T]"},
        outputs={"ids": ("clamp.tokens", "tokens[T]")},
        nodes=[node("clamp", "op.clamp", inputs={"tokens": "tokens[T]"}, outputs={"tokens": "tokens[T]"},
                    attributes={"limit": 4, "fill": 0})],
        edges=[edge("ids ~> clamp.tokens", "tokens[T]")],
    )  # fmt: skip
    with pytest.raises(InputError, match=r"param clamp.limit is a part of what the program is; only its spec can"):
        check_params(program, {"clamp.limit": 9})
    assert "clamp.limit" not in known_params(program)
    assert check_params(program, {"clamp.seed": 1}) == {"clamp": {"seed": 1}}


@pytest.mark.parametrize("name", ["speak.suppress_from", "speak.deepen.suppress_from"])
def test_ids_that_a_program_keeps_from_its_readers_stay_out(name: str) -> None:
    program = omniflow.compile("null.frames")
    (speak,) = (node for node in program.nodes if node.id == "speak")
    assert speak.inner is not None
    inner = replace(speak.inner, attributes={**speak.inner.attributes, "suppress_from": 20})
    kept = replace(speak, attributes={**speak.attributes, "suppress_from": 20}, inner=inner)
    program = replace(program, nodes=tuple(kept if node is speak else node for node in program.nodes))
    for value in (0, 21, 2**31):
        with pytest.raises(
            InputError, match=f"param {name} has to be from 1 to 20: what reads its ids knows no others"
        ):
            check_params(program, {name: value})
    assert check_params(program, {name: 7})
    assert check_params(omniflow.compile("null.frames"), {name: 7})
