"""What a checkpoint prescribes is in the schedule: attributes of loops and sizes in the types of their ports."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import omniflow_compiler
from omniflow_compiler.checkpoint import read_config
from omniflow_compiler.schedule import Schedule

SPECS = Path(__file__).parents[3] / "specs"
EULER = {
    "_class_name": "FlowMatchEulerDiscreteScheduler", "use_dynamic_shifting": True, "base_shift": 0.25,
    "max_shift": 2.0, "base_image_seq_len": 100, "max_image_seq_len": 900, "num_train_timesteps": 500,
    "time_shift_type": "linear",
}  # fmt: skip
UNIPC = {"_class_name": "UniPCMultistepScheduler", "flow_shift": 5.0, "solver_order": 3, "shift_terminal": 0.1}


def compiled(folder: Path, scheduler: dict[str, Any] | None, card: str | None = None) -> Schedule:
    read_config.cache_clear()
    if scheduler is not None:
        (folder / "weights" / "scheduler").mkdir(parents=True)
        (folder / "weights" / "scheduler" / "scheduler_config.json").write_text(json.dumps(scheduler))
        (folder / "weights" / "vae").mkdir()
        (folder / "weights" / "vae" / "config.json").write_text(json.dumps({"block_out_channels": [8, 16, 32]}))
    specs = folder / "specs"
    specs.mkdir()
    (specs / "card.yaml").write_text(card or (SPECS / "flux" / "card.yaml").read_text())
    (specs / "image.program.yaml").write_text((SPECS / "flux" / "image.program.yaml").read_text())
    return omniflow_compiler.compile(specs / "image.program.yaml", params={"weights": str(folder / "weights")})


def test_the_scheduler_of_the_folder_becomes_attributes_of_the_loop(tmp_path: Path) -> None:
    paint = compiled(tmp_path, EULER).node("paint").attributes
    assert paint["solver"] == "euler"
    assert paint["levels"] == "unit"
    assert paint["shift"] == 1.0
    assert paint["shift_by_length"] == [100.0, 0.25, 900.0, 2.0]
    assert paint["shift_curve"] == "linear"
    assert paint["train_steps"] == 500
    assert paint["whole_times"] is False


def test_another_scheduler_prescribes_another_solver(tmp_path: Path) -> None:
    paint = compiled(tmp_path, UNIPC).node("paint").attributes
    assert (paint["solver"], paint["levels"], paint["order"]) == ("unipc", "open", 3)
    assert (paint["shift"], paint["terminal"], paint["whole_times"]) == (5.0, 0.1, True)
    assert paint["shift_by_length"] == []


def test_what_the_card_writes_wins(tmp_path: Path) -> None:
    text = (SPECS / "flux" / "card.yaml").read_text()
    own = text.replace("binds: transformer, steps: $steps}", "binds: transformer, steps: $steps, solver: heun}")
    assert own != text
    paint = compiled(tmp_path, EULER, own).node("paint").attributes
    assert (paint["solver"], paint["levels"]) == ("heun", "unit")


def test_without_a_folder_the_loop_has_its_own_defaults(tmp_path: Path) -> None:
    paint = compiled(tmp_path, None).node("paint").attributes
    assert (paint["solver"], paint["levels"], paint["shift_by_length"]) == ("euler", "even", [])


@pytest.mark.parametrize("value", ["three", None, [1], {"a": 1}, True])
def test_a_setting_of_another_type_prescribes_nothing(tmp_path: Path, value: Any) -> None:
    paint = compiled(tmp_path, {**UNIPC, "flow_shift": value, "solver_order": value}).node("paint").attributes
    assert (paint["shift"], paint["order"]) == (1.0, 2)


def test_pixels_are_as_many_as_the_autoencoder_of_the_folder_makes(tmp_path: Path) -> None:
    show = compiled(tmp_path, EULER).node("show")
    assert [axis.partition("=")[2] or axis for axis in show.outputs[0].type.axes] == ["4*paint.H", "4*paint.W", "3"]


def test_other_settings_give_another_schedule(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    one, two = compiled(tmp_path / "a", EULER), compiled(tmp_path / "b", {**EULER, "max_shift": 3.0})
    assert one.node("paint").attributes != two.node("paint").attributes
    assert one.content_hash != two.content_hash
