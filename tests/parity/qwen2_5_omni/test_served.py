"""Sounds and pictures in chats over HTTP: the answer of the same request in process."""

from __future__ import annotations

import base64
import io
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import soundfile

import omniflow
from omniflow.commands.values import read_inputs
from tests.parity import prepared
from tests.parity.qwen2_5_omni import reference
from tests.parity.qwen2_5_omni.conftest import Reference
from tests.parity.qwen2_5_omni.running import SPECS
from tests.server.served import Served, serving

pytestmark = pytest.mark.hf
CHAT = "/v1/chat/completions"
BOUNDS = {"think.max_tokens": 6, "talk/speak.max_tokens": 8}


@pytest.fixture(scope="module")
def folder(tiny: Reference, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("served") / "model"
    shutil.copytree(tiny.folder, path)
    reference.add_tokenizer(path)
    prepared.write_files(path, seconds={"a": 0.1875}, pictures=("a.png", "b.png"))
    return path


@pytest.fixture(scope="module")
def served(folder: Path) -> Any:
    schedule = omniflow.compile(SPECS / "speech.program.yaml", params={"weights": str(folder)})
    with serving(omniflow.load(schedule)) as found:
        yield found


def encoded(path: Path) -> str:
    return base64.b64encode(path.read_bytes()).decode()


def parts(folder: Path) -> list[dict[str, Any]]:
    pictures = [{"url": f"data:image/png;base64,{encoded(folder / name)}"} for name in ("a.png", "b.png")]
    return [
        *({"type": "image_url", "image_url": url} for url in pictures),
        {"type": "input_audio", "input_audio": {"data": encoded(folder / "a.wav"), "format": "wav"}},
        {"type": "text", "text": "w9 w10"},
    ]


def test_a_chat_with_two_pictures_and_a_sound_is_answered_as_in_process(served: Served, folder: Path) -> None:
    schedule = served.engine.schedule
    one = read_inputs(schedule, {"prompt": "w9 w10", "audio": f"@{folder}/a.wav", "image": f"@{folder}/a.png"})
    other = read_inputs(schedule, {"image": f"@{folder}/b.png"})
    inputs = {**one, "image": [one["image"], other["image"]]}
    want = omniflow.load(schedule).run(inputs, params=BOUNDS)
    answer = served.post("/v1/requests", {
        "inputs": {
            "prompt": "w9 w10",
            "audio": {"base64": encoded(folder / "a.wav"), "name": "a.wav"},
            "image": [{"base64": encoded(folder / name), "name": name} for name in ("a.png", "b.png")],
        },
        "params": BOUNDS,
    })  # fmt: skip
    assert answer.status == 200, answer.body
    assert answer.json["outputs"]["text"] == want.outputs["text"]
    data = base64.b64decode(answer.json["outputs"]["audio"]["base64"])
    samples, _ = soundfile.read(io.BytesIO(data), dtype="float32")
    assert np.abs(samples - want.outputs["audio"].clamp(-1, 1).numpy()).max() <= 1 / 32767
    body = {"messages": [{"role": "user", "content": parts(folder)}], "max_tokens": 6}
    assert served.post(CHAT, body).json["choices"][0]["message"]["content"] == want.outputs["text"]


def test_a_voice_is_chosen_by_name_and_an_unknown_one_says_which_there_are(served: Served) -> None:
    body = {"messages": [{"role": "user", "content": "w9"}], "modalities": ["text", "audio"], "audio": {"voice": "Bea"}}
    answer = served.post(CHAT, {**body, "max_tokens": 3})
    assert answer.status == 422
    assert "there is no voice 'Bea'" in answer.error


def test_files_that_are_none_are_told_without_a_path(served: Served) -> None:
    for given in ({"base64": "AAAA", "name": "a.png"}, {"base64": "?", "name": "a.png"}, {"name": "a.png"}):
        answer = served.post("/v1/requests", {"inputs": {"prompt": "w9", "image": given}})
        assert answer.status == 422
        assert "input image" in answer.error
        assert "/tmp" not in answer.error
    url = {"type": "image_url", "image_url": {"url": "file:///etc/passwd"}}
    answer = served.post(CHAT, {"messages": [{"role": "user", "content": [url]}]})
    assert answer.status == 422
    assert "nothing is fetched" in answer.error
