"""`omniflow.compile` and `omniflow.load`: what the command line can say, Python can say too."""

from __future__ import annotations

import inspect
from pathlib import Path
from typing import Any

import pytest

import omniflow
from omniflow.commands.selection import Selection
from tests.runtime.program import PROGRAM, PROMPTS, alone, outputs_of, speech

PLUGIN = """from dataclasses import replace
from omniflow_compiler.library.library import BUILT_IN
SIGNATURES = [replace(BUILT_IN.expert("null.thinker"), use="own.thinker")]
LOADERS = {}
"""


def test_python_can_say_all_that_the_command_line_can() -> None:
    own = {"spec": "path", "settings": "params"}  # what is called otherwise
    said = {own.get(name, name) for name in Selection.__dataclass_fields__}
    assert said == set(inspect.signature(omniflow.compile).parameters)


def test_devices_budgets_and_a_configuration_arrive(tmp_path: Path) -> None:
    config = tmp_path / "c.config.yaml"
    config.write_text("omniflow: 1\nkind: config\ndevices: {thinker: cuda}\nbudgets: {cpu: 3 GiB}\n")
    smol = "smol_speech.speech"
    schedule = omniflow.compile(smol, devices={"vocoder": "cuda:1"}, budgets={"cuda": "4GiB"}, config=config)
    placed = {expert.name: expert.device for expert in schedule.experts}
    assert (placed["thinker"], placed["vocoder"], placed["talker"]) == ("cuda", "cuda:1", "cpu")
    budgets = {memory.device: memory.budget_bytes for memory in schedule.memory}
    assert budgets == {"cpu": 3 << 30, "cuda": 4 << 30, "cuda:1": None}
    assert {expert.device for expert in omniflow.compile(smol, devices="cuda").experts} == {"cuda"}
    with pytest.raises(omniflow.Faults, match="OF2401"):
        omniflow.compile(smol, budgets={"cpu": 1 << 20})


def test_values_are_python_values_or_texts() -> None:
    found = [omniflow.compile(PROGRAM, params={"max_tokens": value}).content_hash for value in (9, "9")]
    assert found[0] == found[1] != speech().content_hash
    assert omniflow.compile(PROGRAM, outputs="text").content_hash == speech(("text",)).content_hash


def test_a_plugin_adds_experts(tmp_path: Path) -> None:
    (tmp_path / "own.py").write_text(PLUGIN)
    for name in ("card.yaml", "speech.program.yaml"):
        text = PROGRAM.with_name(name).read_text()
        (tmp_path / name).write_text(text.replace("null.thinker", "own.thinker"))
    path = tmp_path / "speech.program.yaml"
    with pytest.raises(omniflow.Faults, match="OF1302"):
        omniflow.compile(path)
    assert "own.thinker" in {expert.use for expert in omniflow.compile(path, plugins=[tmp_path / "own.py"]).experts}


@pytest.mark.parametrize(
    ("arguments", "error", "said"),
    [
        ({"devices": "gpu"}, omniflow.InputError, "write cpu, cuda or cuda:1"),
        ({"budgets": {"cpu": "lots"}}, omniflow.InputError, "2GiB"),
        ({"budgets": {"ram": "1GiB"}}, omniflow.InputError, "2GiB"),
        ({"deny": ["warnings"], "config": "nowhere.yaml"}, omniflow.Faults, "OF1001"),
    ],
)
def test_an_argument_that_cannot_be_followed_is_named(
    arguments: dict[str, Any], error: type[Exception], said: str
) -> None:
    with pytest.raises(error, match=said):
        omniflow.compile(PROGRAM, **arguments)


def test_a_path_is_loaded_and_anything_else_is_no_schedule(tmp_path: Path) -> None:
    path = tmp_path / "s.json"
    path.write_text(speech().to_json())
    for given in (path, str(path), PROGRAM, "null.speech"):
        text, _ = outputs_of(omniflow.load(given).run({"prompt": PROMPTS[0]}))
        assert text == alone(PROMPTS[0])[0]
    with pytest.raises(omniflow.ScheduleError, match="cannot be read"):
        omniflow.load(tmp_path / "none.json")
    with pytest.raises(omniflow.UnknownSpec, match="did you mean"):
        omniflow.load("null.speach")
    wrong: Any = 3
    with pytest.raises(TypeError, match="load takes a schedule or the path of one, not int"):
        omniflow.load(wrong)
    with pytest.raises(TypeError, match="compile takes the path of a spec"):
        omniflow.compile(speech())  # type: ignore[arg-type]
