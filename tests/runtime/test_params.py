"""A request's own parameters: by name, by the type that is declared, before anything is loaded."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch

from omniflow import InputError
from omniflow.commands import run as command
from omniflow.params import check_params, read_params
from tests.runtime.command import cli
from tests.runtime.program import PROGRAM, PROMPTS, engine, speech


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
