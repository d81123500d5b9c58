"""Sound and picture files in: what transformers' own preprocessing and model make of them, alone and among others."""

from __future__ import annotations

import math
import re
import shutil
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import soundfile
import torch

import omniflow
from omniflow.commands.values import read_inputs
from tests.parity import prepared
from tests.parity.qwen2_5_omni import reference
from tests.parity.qwen2_5_omni.conftest import Reference
from tests.parity.qwen2_5_omni.reference import AUDIO, IMAGE, PREPROCESSING, WORDS, Case
from tests.parity.qwen2_5_omni.running import SPECS, engine, inputs, outputs_of, params
from tests.runtime.command import cli

pytestmark = pytest.mark.hf
NEVER = reference.VOCABULARY - 1  # an id that ends no reply here
CLOSE = {"atol": 1e-5, "rtol": 0}
SECONDS = {"short": 0.031, "long": 0.777}


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
    from transformers.models.qwen2_5_omni.processing_qwen2_5_omni import _get_feat_extract_output_lengths

    body: list[int] = []
    features, pixels, grid = None, None, None
    if picture:
        pixels, grid = prepared.seen(prepared.picture(folder / picture), PREPROCESSING)
        body += [reference.VISION_START, *[IMAGE] * (math.prod(grid) // 4), reference.VISION_END]
    if sound:
        features = prepared.heard(prepared.sound(folder / sound), PREPROCESSING, fills=True)
        rows = _get_feat_extract_output_lengths(features.shape[1])
        body += [reference.AUDIO_START, *[AUDIO] * rows, reference.AUDIO_END]
    prompt = _prompt(folder, (*body, *words))
    return Case(prompts=(prompt,), features=features, pixels=pixels, grid=grid, eos=NEVER, max_codes=16)


def _prompt(folder: Path, body: tuple[int, ...]) -> tuple[int, ...]:
    """The chat around what the user says."""
    system = _speech(folder).schedule.node("read/tokenize").attributes["system"]
    assert isinstance(system, str)
    return (0, *[3] * len(system.split()), 1, *body, 2)


@pytest.mark.parametrize(
    ("sound", "picture"), [("short.wav", ""), ("", "a.png"), ("long.wav", "a.png")], ids=["sound", "picture", "both"]
)
def test_files_are_answered_as_transformers_answers_what_its_processor_makes_of_them(
    tiny: Reference, folder: Path, sound: str, picture: str
) -> None:
    written = {"prompt": "w9 w10"}
    written |= {"audio": f"@{{at}}/{sound}"} if sound else {}
    written |= {"image": f"@{{at}}/{picture}"} if picture else {}
    case = _case(folder, (9, 10), sound, picture)
    own = outputs_of(_speech(folder).run(_asked(folder, **written), seed=5, rng="torch", params=params(case)))
    tensors = outputs_of(engine(folder).run(inputs(case), seed=5, rng="torch", params=params(case)))
    theirs = reference.record(tiny.model, case, seed=5)
    assert own["text"] == " ".join(WORDS[i] for i in tensors["tokens"].tolist())
    assert tensors["tokens"].tolist() == theirs.text[0]
    torch.testing.assert_close(own["audio"], tensors["audio"], atol=1e-6, rtol=0)
    torch.testing.assert_close(own["audio"], theirs.waves[0], **CLOSE)


def test_a_spoken_question_needs_no_words_and_another_sound_is_answered_otherwise(folder: Path) -> None:
    asked = {"audio": "@{at}/long.wav"}, {"audio": "@{at}/short.wav"}
    wishes = {"think.max_tokens": 6, "think.stop": [NEVER], "talk/speak.max_tokens": 8, "talk/speak.temperature": 0.0}
    answers = [outputs_of(_speech(folder).run(_asked(folder, **written), params=wishes)) for written in asked]
    assert [len(str(own["text"]).split()) for own in answers] == [6, 6]
    assert not torch.equal(answers[0]["audio"], answers[1]["audio"])


@pytest.mark.parametrize("program", ["speech.program.yaml", "stream.program.yaml"])
def test_requests_with_sounds_of_different_lengths_together_equal_each_alone(folder: Path, program: str) -> None:
    running = omniflow.load(omniflow.compile(SPECS / program, params={"weights": str(folder)}))
    files = ({"audio": "@{at}/short.wav"}, {"audio": "@{at}/long.wav", "image": "@{at}/a.png"}, {})
    asked = [_asked(folder, prompt=f"w{9 + i}", **written) for i, written in enumerate(files)]
    wishes = {"think.max_tokens": 6, "think.stop": [NEVER], "talk/speak.max_tokens": 12}
    alone = [outputs_of(running.run(own, seed=i, params=wishes)) for i, own in enumerate(asked)]
    together = [running.submit(own, seed=i, params=wishes) for i, own in enumerate(asked)]
    while not running.is_idle:
        running.step()
    for request, expected in zip(together, alone, strict=True):
        result = running.result(request)
        assert result is not None
        own = outputs_of(result)
        assert own["text"] == expected["text"]
        torch.testing.assert_close(own["audio"], expected["audio"], **CLOSE)
    assert running.live == 0


def test_several_sounds_and_pictures_stand_where_the_template_marks_them(tiny: Reference, folder: Path) -> None:
    """Two of each: every one has its own rows, in order, and the picture's places follow each other."""
    sounds = [prepared.sound(folder / f"{name}.wav") for name in ("long", "short")]
    pictures = [prepared.picture(folder / "a.png"), prepared.picture(folder / "a.png")[:9, :20]]
    wishes = {"think.max_tokens": 6, "think.stop": [NEVER], "talk/speak.max_tokens": 8, "talk/speak.temperature": 0.0}
    own = outputs_of(_speech(folder).run({"audio": sounds, "image": pictures, "prompt": "w9"}, params=wishes))
    parts = [prepared.seen(picture, PREPROCESSING) for picture in pictures]
    features = [prepared.heard(sound, PREPROCESSING, fills=True) for sound in sounds]
    body: list[int] = []
    for _, grid in parts:
        body += [reference.VISION_START, *[IMAGE] * (math.prod(grid) // 4), reference.VISION_END]
    for found in features:
        body += [reference.AUDIO_START, *[AUDIO] * ((found.shape[1] + 1) // 2 // 2), reference.AUDIO_END]
    given = {
        "tokens": torch.tensor(_prompt(folder, (*body, 9))),
        "sounds": features,
        "pictures": [pixels for pixels, _ in parts],
        "grids": [torch.tensor(grid) for _, grid in parts],
    }
    tensors = outputs_of(engine(tiny.folder).run(given, params=wishes))
    assert own["text"] == " ".join(WORDS[i] for i in tensors["tokens"].tolist())
    torch.testing.assert_close(own["audio"], tensors["audio"], **CLOSE)


def test_what_cannot_be_heard_or_seen_is_one_line(folder: Path, tmp_path: Path) -> None:
    said = {
        "a sound of 2.5 s is longer than the 2 s that this checkpoint hears": {"audio": [torch.zeros(40000)]},
        "a sound of 0 samples is too short": {"audio": [torch.zeros(0)]},
        "audio features must be [12, 3 or more frames]": {"audio": [torch.zeros(100)]},
        "a picture of 300 x 1 cannot be cut": {"image": [torch.zeros(1, 300, 3, dtype=torch.uint8)]},
        "nothing is said, shown or played": {},
        "the prompt has 1 places (token 180) for 0 sounds or pictures": {"prompt": "w180"},
    }
    for message, asked in said.items():
        result = _speech(folder).run(asked)
        assert result.error is not None
        assert message in result.error
        assert "\n" not in result.error
    schedule = _speech(folder).schedule
    with pytest.raises(omniflow.InputError, match=r"has 4800001 elements along S \(300\.00 s\), at most 4800000"):
        _speech(folder).run({"audio": [torch.zeros(4_800_001)]})
    with pytest.raises(omniflow.InputError, match="input image has 5 elements along M, at most 4"):
        _speech(folder).run({"image": [torch.zeros(2, 2, 3, dtype=torch.uint8)] * 5})
    (tmp_path / "no.wav").write_text("hello")
    for name in ("audio", "image"):
        with pytest.raises(omniflow.InputError, match=rf"input {name} is .*no\.wav cannot be one: "):
            read_inputs(schedule, {name: f"@{tmp_path / 'no.wav'}"})


def test_pictures_of_every_kind_are_seen_as_transformers_sees_them(folder: Path, tmp_path: Path) -> None:
    from PIL import Image

    patches = _speech(folder).bound.experts["pictures"]
    array = prepared.picture(folder / "a.png").numpy()
    for mode in ("RGB", "RGBA", "L", "LA", "P", "1", "CMYK"):
        path = tmp_path / ("a.tiff" if mode == "CMYK" else "a.png")
        Image.fromarray(array).convert(mode).save(path)
        (picture,) = read_inputs(_speech(folder).schedule, {"image": f"@{path}"})["image"][None]
        pixels, grid = patches.patches(picture)
        expected, expected_grid = prepared.seen(prepared.picture(path), PREPROCESSING)
        assert tuple(grid.tolist()) == expected_grid
        torch.testing.assert_close(pixels, expected, **CLOSE)


def test_stereo_at_another_rate_is_heard_as_the_same_sound(folder: Path, tmp_path: Path) -> None:
    def tone(rate: int) -> torch.Tensor:
        return 0.4 * torch.sin(2 * math.pi * 440 * torch.arange(rate) / rate)

    soundfile.write(tmp_path / "stereo.wav", torch.stack([tone(44100), tone(44100)], 1).numpy(), 44100)
    samples = read_inputs(_speech(folder).schedule, {"audio": f"@{tmp_path / 'stereo.wav'}"})["audio"]
    ears = _speech(folder).bound.experts["sounds"]
    own, expected = (ears.features(sound, end="silence") for sound in (samples, tone(16000)))
    assert own.shape == expected.shape == (12, 100)
    torch.testing.assert_close(own[:2, 5:-5], expected[:2, 5:-5], atol=5e-3, rtol=0)  # the bands that hold the tone


@pytest.mark.parametrize("program", ["speech", "stream"])
def test_one_command_with_words_a_sound_and_pictures_writes_text_and_speech(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], program: str
) -> None:
    picture, out = f"image=@{folder}/a.png", tmp_path / "out"
    given = [f"audio=@{folder}/long.wav", picture, picture, "prompt=w9 w10"]
    asked = ["--set", f"weights={folder}", *(part for text in given for part in ("--input", text))]
    wishes = ["--param", "think.max_tokens=5", "--param", f"think.stop=[{NEVER}]", "--param", "talk/speak.max_tokens=8"]
    assert cli("run", f"qwen2_5_omni.{program}", *asked, *wishes, "--out", str(out)) == 0
    assert len((out / "text.txt").read_text(encoding="utf-8").split()) == 5
    assert len(soundfile.read(out / "audio.wav")[0]) > 0
    small = ["--set", "text_cache=16KiB", "--set", "max_text=5"]
    assert cli("run", f"qwen2_5_omni.{program}", *asked, *small, "--out", str(out)) == 1
    error = capsys.readouterr().err.strip().splitlines()[-1]
    assert re.search(r"node think: it needs \d+ positions and the cache of thinker has 32", error)
