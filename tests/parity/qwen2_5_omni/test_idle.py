"""A run without a sound or a picture reads no tower's weights; one with a sound reads that of sounds alone."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

import omniflow
from omniflow import Engine
from omniflow.commands import run as command
from omniflow.idle import IdleEncoder
from tests.parity import prepared
from tests.parity.qwen2_5_omni import reference
from tests.parity.qwen2_5_omni.conftest import Reference
from tests.parity.qwen2_5_omni.running import SPECS

pytestmark = pytest.mark.hf
BOUNDS = {"think.max_tokens": "6", "talk/speak.max_tokens": "8"}


@pytest.mark.parametrize(("sound", "idle"), [(False, {"ears", "eyes"}), (True, {"eyes"})])
def test_towers_that_nothing_asks_are_not_loaded(
    tiny: Reference, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, sound: bool, idle: set[str]
) -> None:
    folder = tmp_path / "model"
    shutil.copytree(tiny.folder, folder)
    reference.add_tokenizer(folder)
    prepared.write_files(folder, seconds={"a": 0.1875}, pictures=())
    engines: list[Engine] = []

    def load(*arguments: Any, **options: Any) -> Engine:
        engines.append(omniflow.load(*arguments, **options))
        return engines[-1]

    monkeypatch.setattr(command, "load", load)
    schedule = omniflow.compile(SPECS / "speech.program.yaml", params={"weights": str(folder)})
    inputs = {"prompt": "w9 w10", **({"audio": f"@{folder}/a.wav"} if sound else {})}
    out = tmp_path / "out"
    code = command.run(
        schedule, inputs=inputs, params=BOUNDS, out=out, seed=0, profile="serve", as_json=False, trace=False
    )
    assert code == 0
    experts = engines[0].bound.experts
    assert {name for name, expert in experts.items() if isinstance(expert, IdleEncoder)} == idle
    values = command.read_inputs(schedule, inputs)
    bounds = {name: int(most) for name, most in BOUNDS.items()}
    assert (out / "text.txt").read_text() == omniflow.load(schedule).run(values, params=bounds).outputs["text"]
