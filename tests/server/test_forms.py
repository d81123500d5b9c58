"""Which programs of the catalogue answer which of OpenAI's forms."""

from __future__ import annotations

import base64
import io
from pathlib import Path

import numpy as np
import pytest
import torch

import omniflow
from omniflow.server.images import painting_of
from omniflow.server.speech import speaking_of
from omniflow.server.wire import pcm
from omniflow_compiler.schedule import Schedule
from tests.server.served import serving
from tests.verify.ways import CHECKPOINTS, WAYS

SPEAKERS = {  # the input that takes the text, and the one that takes the voice
    "cosmos3.film": ("prompt", None),
    "csm.speech": ("text", None),
    "musicgen.music": ("prompt", None),
    "musicgen.stereo": ("prompt", None),
    "null.speech": ("prompt", None),
    "qwen2_5_omni.speech": ("prompt", "speaker"),
    "qwen2_5_omni.stream": ("prompt", "speaker"),
    "qwen3_omni.speech": ("prompt", "speaker"),
    "smol_speech.speech": ("prompt", None),
}
PAINTERS = {"flux.image": True, "flux.schnell": True, "flux.true_cfg": True, "null.image": False}  # whether sized


def compiled(name: str, folder: Path) -> Schedule:
    return omniflow.compile(name, params={"weights": str(folder)} if WAYS[name].checkpoint else None)


@pytest.mark.parametrize("name", sorted(WAYS))
def test_a_program_of_the_catalogue_answers_the_forms_that_it_has_places_for(name: str, tmp_path: Path) -> None:
    schedule = compiled(name, tmp_path)
    speaking, painting = speaking_of(schedule), painting_of(schedule)
    assert (speaking is not None) == (name in SPEAKERS)
    if speaking is not None:
        voice = None if speaking.voice is None else speaking.voice.name
        assert (speaking.text.name, voice) == SPEAKERS[name]
    assert (painting is not None) == (name in PAINTERS)
    if painting is not None:
        assert (painting.height is not None, painting.width is not None) == (PAINTERS[name],) * 2


@pytest.mark.hf
def test_a_voice_of_an_omni_program_is_spoken_with_and_an_unknown_one_is_refused(tmp_path: Path) -> None:
    CHECKPOINTS["qwen3_omni"](tmp_path)
    schedule = omniflow.compile(
        "qwen3_omni.speech", params={"weights": str(tmp_path), **WAYS["qwen3_omni.speech"].params}
    )
    with serving(omniflow.load(schedule)) as served:
        sounds = []
        for voice in ("ethan", "chelsie"):
            body = {"input": "w3 w14 w15 w92 w65", "voice": voice, "response_format": "pcm"}
            sounds.append(served.post("/v1/audio/speech", body).body)
            want = omniflow.load(schedule).run({"prompt": body["input"], "speaker": voice}).outputs["audio"]
            assert len(want)
            assert sounds[-1] == pcm(want)
        assert sounds[0] != sounds[1]
        answer = served.post("/v1/audio/speech", {"input": "w3", "voice": "Bob"})
        assert answer.status == 422
        assert "there is no voice 'Bob'; this checkpoint has chelsie, ethan" in answer.error


@pytest.mark.hf
def test_pictures_of_flux_have_the_size_that_is_asked_for(tmp_path: Path) -> None:
    from PIL import Image

    CHECKPOINTS["flux"](tmp_path)
    schedule = omniflow.compile("flux.image", params={"weights": str(tmp_path), **WAYS["flux.image"].params})
    with serving(omniflow.load(schedule)) as served:
        answer = served.post("/v1/images/generations", {"prompt": "a red cat", "size": "32x16", "n": 2, "seed": 4})
        found = [base64.b64decode(each["b64_json"]) for each in answer.json["data"]]
        alone = [
            omniflow.load(schedule).run({"prompt": "a red cat", "height": 16, "width": 32}, seed=seed).outputs["image"]
            for seed in (4, 5)
        ]
        assert [image.shape[:2] for image in alone] == [(16, 32), (16, 32)]
        for data, image in zip(found, alone, strict=True):
            pixels = torch.from_numpy(np.array(Image.open(io.BytesIO(data))))
            assert pixels.shape == image.shape
            assert (pixels.float() - (image * 255).round().clamp(0, 255)).abs().max() <= 1  # two rows in one batch
