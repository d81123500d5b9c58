"""What the compiler calls fine does not stop for want of room, also where whole items are cut into windows."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

import omniflow
from omniflow import State
from omniflow_compiler.diagnostics import Faults
from tests.runtime.program import PROGRAM, PROMPTS

LONG = {"think.stop": [], "think.max_tokens": 300}  # sentences of more frames than channels hold


def speech_with(folder: Path, old: str, new: str) -> Path:
    """The null speech program with one edge written otherwise."""
    text = PROGRAM.read_text()
    assert old in text
    shutil.copy(PROGRAM.parent / "card.yaml", folder)
    path = folder / PROGRAM.name
    path.write_text(text.replace(old, new))
    return path


def test_the_frames_beside_a_long_look_ahead_get_the_room_they_need(tmp_path: Path) -> None:
    path = speech_with(tmp_path, "right_context: 27", "right_context: 300")
    result = omniflow.load(omniflow.compile(path)).run({"prompt": PROMPTS[0]}, params=LONG)
    assert result.state is State.DONE, result.error


def test_the_least_capacity_beside_a_look_ahead_is_enough_and_one_less_is_a_deadlock(tmp_path: Path) -> None:
    old, new = "wave.f0: {chunk: 32}", "wave.f0: {{chunk: 32, capacity: {}}}"
    result = omniflow.load(omniflow.compile(speech_with(tmp_path, old, new.format(59)))).run(
        {"prompt": PROMPTS[0]}, params=LONG
    )
    assert result.state is State.DONE, result.error
    with pytest.raises(Faults, match="OF2204 `wave` gets 58 elements less over another way"):
        omniflow.compile(speech_with(tmp_path, old, new.format(58)))
