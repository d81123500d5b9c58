"""Sound and picture files in: what transformers' own preprocessing and model make of them, alone and among others."""

from __future__ import annotations

import math
import shutil
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import torch

import omniflow
from omniflow.commands.values import read_inputs
from tests.parity import prepared
from tests.parity.qwen3_omni import reference
from tests.parity.qwen3_omni.conftest import Reference
from tests.parity.qwen3_omni.reference import AUDIO, IMAGE, PREPROCESSING, Case
from tests.parity.qwen3_omni.running import SPECS, engine, inputs, outputs_of, params

pytestmark = pytest.mark.hf
CLOSE = {"atol": 1e-5, "rtol": 0}
SECONDS = {"short": 0.031, "long": 1.313}


@pytest.fixture(scope="module")
def folder(tiny: Reference, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The checkpoint with a tokenizer of one id per word, and files that people could have."""
    path = tmp_path_factory.mktemp("seeing") / "model"
    shutil.copytree(tiny.folder, path)
    reference.add_tokenizer(path)
    prepared.write_files(path, seconds=SECONDS)
    return path


@cache
def _speech(folder: Path) -> omniflow.Engine:
    return omniflow.load(omniflow.compile(SPECS / "speech.program.yaml", params={"weights": str(folder)}))


def _asked(folder: Path, **written: str) -> dict[str, Any]:
    return read_inputs(_speech(folder).schedule, {name: text.format(at=folder) for name, text in written.items()})


def _case(folder: Path, words: tuple[int, ...], sound: str = "", picture: str = "") -> Case:
    """What transformers gets: its own features and patches, and a placeholder for each row that it counts."""
    from transformers.models.qwen3_omni_moe.processing_qwen3_omni_moe import _get_feat_extract_output_lengths

    body: list[int] = []
    features, pixels, grid = None, None, None
    if picture:
        pixels, grid = prepared.seen(prepared.picture(folder / picture), PREPROCESSING)
        body += [reference.VISION_START, *[IMAGE] * (math.prod(grid) // 4), reference.VISION_END]
    if sound:
        features = prepared.heard(prepared.sound(folder / sound), PREPROCESSING, fills=False)
        rows = _get_feat_extract_output_lengths(features.shape[1])
        body += [reference.AUDIO_START, *[AUDIO] * rows, reference.AUDIO_END]
    r = reference
    prompt = (r.TURN, r.USER, r.LINE, *body, *words, r.TURN_END, r.LINE, r.TURN, r.ASSISTANT, r.LINE)
    return Case(prompts=(prompt,), features=features, pixels=pixels, grid=grid, max_frames=12)


@pytest.mark.parametrize(
    ("sound", "picture"), [("short.wav", ""), ("", "a.png"), ("long.wav", "a.png")], ids=["sound", "picture", "both"]
)
def test_files_are_answered_as_transformers_answers_what_its_processor_makes_of_them(
    tiny: Reference, folder: Path, monkeypatch: pytest.MonkeyPatch, sound: str, picture: str
) -> None:
    # transformers 5.24 fails on a sound beside a picture: its talker counts the sound's rows by a config it lacks
    ears = tiny.model.config.thinker_config.audio_config
    monkeypatch.setattr(tiny.model.talker.config, "audio_config", ears, raising=False)
    written = {"prompt": "w9 w10"}
    written |= {"audio": f"@{{at}}/{sound}"} if sound else {}
    written |= {"image": f"@{{at}}/{picture}"} if picture else {}
    case = _case(folder, (9, 10), sound, picture)
    own = outputs_of(_speech(folder).run(_asked(folder, **written), seed=5, rng="torch", params=params(case)))
    tensors = outputs_of(engine(folder).run(inputs(case), seed=5, rng="torch", params=params(case)))
    theirs = reference.record(tiny.model, case, seed=5)
    assert own["text"] == _speech(folder).bound.experts["tokenizer"].decode(tensors["tokens"].tolist())
    assert tensors["tokens"].tolist() == theirs.text[0]
    torch.testing.assert_close(own["audio"], tensors["audio"], atol=1e-6, rtol=0)
    torch.testing.assert_close(own["audio"], theirs.waves[0], **CLOSE)
