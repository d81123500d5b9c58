"""Which programs of the catalogue answer which of OpenAI's forms."""

from __future__ import annotations

from pathlib import Path

import pytest

import omniflow
from omniflow.server.images import painting_of
from omniflow.server.speech import speaking_of
from omniflow_compiler.schedule import Schedule
from tests.verify.ways import WAYS

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
