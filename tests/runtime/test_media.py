"""Files go in as values and values come out as files, and what is too large or not what it says is refused."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import soundfile
import torch
from safetensors.torch import save_file

from omniflow import media
from omniflow.artefacts import animation, png
from omniflow.commands.values import read_inputs
from omniflow.errors import InputError
from omniflow.media import read_file
from omniflow.resample import resample
from omniflow_compiler.schedule import Input, Place, PortType
from omniflow_compiler.types import parse_type

PLACE = Place(file="x.yaml", line=1, column=1)


def wanted(text: str) -> Input:
    type_ = parse_type(text)
    kind = PortType(
        text=text, base=type_.base, dtype=type_.dtype, axes=tuple(str(axis) for axis in type_.axes),
        rate_hz=float(type_.rate.factor) if type_.rate else None, vocabulary=None,
    )  # fmt: skip
    return Input(name="given", type=kind, required=True, default=None, place=PLACE)


def tone(rate: int, seconds: float = 0.5) -> torch.Tensor:
    return 0.5 * torch.sin(2 * math.pi * 440 * torch.arange(int(rate * seconds)) / rate)


@pytest.mark.parametrize(("rate", "to"), [(44100, 16000), (16000, 24000), (8000, 16000), (22050, 24000)])
def test_a_tone_at_another_rate_is_the_same_tone(rate: int, to: int) -> None:
    found = resample(tone(rate), rate, to)
    assert len(found) == math.ceil(len(tone(rate)) * to / rate)
    assert float((found - tone(to)[: len(found)])[200:-200].abs().max()) < 1e-3


def test_what_lies_above_the_new_rate_does_not_fold_down() -> None:
    high = torch.sin(2 * math.pi * 15000 * torch.arange(48000).double() / 48000).float()
    assert float(resample(high, 48000, 16000)[200:-200].abs().max()) < 1e-3


def test_sound_is_read_at_the_rate_and_with_the_channels_of_its_type(tmp_path: Path) -> None:
    stereo = torch.stack([tone(44100), -0.5 * tone(44100)], dim=1)
    soundfile.write(tmp_path / "a.wav", stereo.numpy(), 44100)
    mono = read_file(wanted("audio[S] @ 16 kHz"), str(tmp_path / "a.wav"))
    assert float((mono - 0.25 * tone(16000))[200:-200].abs().max()) < 1e-3
    both = read_file(wanted("audio[S, 2] @ 16 kHz"), str(tmp_path / "a.wav"))
    assert both.shape == (8000, 2)


def test_a_tensor_is_named_behind_its_file_and_loses_the_axis_of_requests(tmp_path: Path) -> None:
    ids = torch.tensor([[3, 1, 2]])
    save_file({"input_ids": ids, "noise": torch.zeros(2, 3)}, tmp_path / "in.safetensors")
    file = str(tmp_path / "in.safetensors")
    assert read_file(wanted("tokens[P]"), f"{file}#input_ids").tolist() == [3, 1, 2]
    assert read_file(wanted("f32[T, D]"), f"{file}#noise").shape == (2, 3)
    with pytest.raises(InputError, match="name one of its tensors behind a #: input_ids, noise"):
        read_file(wanted("tokens[P]"), file)
    with pytest.raises(InputError, match="it has input_ids, noise"):
        read_file(wanted("tokens[P]"), f"{file}#ids")


def test_arrays_text_and_json_are_read_by_what_they_are(tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", np.ones((1, 2, 3), np.float32))
    (tmp_path / "a.txt").write_text("Grüße")
    (tmp_path / "a.json").write_text(json.dumps([{"role": "user", "content": "hi"}]))
    assert read_file(wanted("f32[T, D]"), str(tmp_path / "a.npy")).shape == (2, 3)
    assert read_file(wanted("text"), str(tmp_path / "a.txt")) == "Grüße"
    assert read_file(wanted("json"), str(tmp_path / "a.json"))[0]["content"] == "hi"


@pytest.mark.hf
def test_a_picture_is_read_as_it_was_written(tmp_path: Path) -> None:
    picture = torch.randint(0, 256, (5, 7, 3), generator=torch.Generator().manual_seed(0), dtype=torch.uint8)
    (tmp_path / "a.png").write_bytes(png(picture))
    assert torch.equal(read_file(wanted("image:u8[H, W, 3]"), str(tmp_path / "a.png")), picture)
    assert torch.allclose(read_file(wanted("image[H, W, 3]"), str(tmp_path / "a.png")), picture / 255)


@pytest.mark.hf
def test_sixteen_bits_of_grey_are_seen_in_eight_and_transparency_is_left_out(tmp_path: Path) -> None:
    from PIL import Image

    grey = np.arange(0, 65536, 4369, dtype=np.uint16).reshape(4, 4)
    Image.fromarray(grey).save(tmp_path / "grey.png")
    own = read_file(wanted("image:u8[H, W, 3]"), str(tmp_path / "grey.png"))
    assert own[..., 0].tolist() == (grey >> 8).tolist()
    Image.new("RGBA", (2, 1), (10, 20, 30, 0)).save(tmp_path / "clear.png")
    assert read_file(wanted("image:u8[N*, H, W, 3]"), str(tmp_path / "clear.png")).tolist() == [[[10, 20, 30]] * 2]


@pytest.mark.hf
def test_a_clip_comes_back_from_its_file_frame_by_frame(tmp_path: Path) -> None:
    from PIL import Image

    clip = torch.randint(0, 256, (4, 6, 5, 3), generator=torch.Generator().manual_seed(1), dtype=torch.uint8)
    (tmp_path / "a.png").write_bytes(animation(clip, 12.5))
    assert torch.equal(read_file(wanted("video:u8[F, H, W, 3]"), str(tmp_path / "a.png")), clip)
    with Image.open(tmp_path / "a.png") as image:
        assert image.n_frames == 4
        assert image.info["duration"] == pytest.approx(80)


@pytest.mark.hf
@pytest.mark.parametrize(("name", "value"), [("MAX_PIXELS", 20), ("MAX_FRAMES", 1)])
def test_more_pixels_than_allowed_are_refused_before_they_are_decoded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, value: int
) -> None:
    (tmp_path / "a.png").write_bytes(animation(torch.zeros(3, 6, 5, 3), 10))
    monkeypatch.setattr(media, name, value)
    with pytest.raises(InputError, match="it has 3 x 5 x 6 pixels"):
        read_file(wanted("video[F, H, W, 3]"), str(tmp_path / "a.png"))


def test_longer_sound_and_larger_files_than_allowed_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    soundfile.write(tmp_path / "a.wav", tone(8000).numpy(), 8000)
    monkeypatch.setattr(media, "MAX_SECONDS", 0.1)
    with pytest.raises(InputError, match="longer than"):
        read_file(wanted("audio[S] @ 8 kHz"), str(tmp_path / "a.wav"))
    monkeypatch.setattr(media, "MAX_FILE_BYTES", 100)
    with pytest.raises(InputError, match="is larger than"):
        read_file(wanted("audio[S] @ 8 kHz"), str(tmp_path / "a.wav"))


@pytest.mark.parametrize(
    ("type_", "name", "content"),
    [
        ("audio[S] @ 8 kHz", "a.wav", b"RIFFnothing"),
        ("f32[T]", "a.npy", b"\x93NUMPYnothing"),
        ("tokens[T]", "a.safetensors", b"\xff" * 40),
        ("text", "a.txt", b"\xff\xfe\x00"),
        ("json", "a.json", b"{"),
    ],
)
def test_a_file_that_is_not_what_it_says_is_one_clear_line(
    tmp_path: Path, type_: str, name: str, content: bytes
) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(InputError) as caught:
        read_file(wanted(type_), f"{tmp_path / name}#x")
    assert str(caught.value).startswith(f"input given is {type_}; {tmp_path / name} cannot be one")
    assert "\n" not in str(caught.value)


def test_no_pickle_is_read(tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", np.array([{"a": 1}], dtype=object), allow_pickle=True)
    with pytest.raises(InputError, match="cannot be one"):
        read_file(wanted("f32[T]"), str(tmp_path / "a.npy"))


def test_an_at_sign_names_a_file_and_two_are_text(tmp_path: Path) -> None:
    (tmp_path / "p.txt").write_text("from a file")

    class Declared:
        inputs = (wanted("text"),)

    schedule: Any = Declared()
    assert read_inputs(schedule, {"given": f"@{tmp_path / 'p.txt'}"}) == {"given": "from a file"}
    assert read_inputs(schedule, {"given": "@@home"}) == {"given": "@home"}
    assert read_inputs(schedule, {"given": "me@home"}) == {"given": "me@home"}
    with pytest.raises(InputError, match="there is no file nowhere"):
        read_inputs(schedule, {"given": "@nowhere"})


@pytest.mark.parametrize(
    ("written", "said"),
    [
        ("@", "input given is {type}; `@` names no file: write @ and its path"),
        ("@#x", "input given is {type}; `@#x` names no file: write @ and its path"),
        ("@{folder}", "input given is {type}; {folder} is a folder, not a file"),
    ],
)
@pytest.mark.parametrize("kind", ["text", "audio[S]", "json"])
def test_a_path_that_is_empty_or_a_folder_is_named_for_what_it_is(
    tmp_path: Path, kind: str, written: str, said: str
) -> None:
    class Declared:
        inputs = (wanted(kind),)

    schedule: Any = Declared()
    with pytest.raises(InputError) as error:
        read_inputs(schedule, {"given": written.format(folder=tmp_path)})
    assert str(error.value) == said.format(type=wanted(kind).type.text, folder=tmp_path)


def test_an_input_of_items_is_written_once_per_item_and_any_other_once(tmp_path: Path) -> None:
    for name, seconds in (("a", 0.1), ("b", 0.2)):
        soundfile.write(tmp_path / f"{name}.wav", tone(16000, seconds).numpy(), 16000)

    class Declared:
        inputs = (wanted("audio[N*, S] @ 16 kHz"),)

    schedule: Any = Declared()
    files = [f"@{tmp_path / 'a.wav'}", f"@{tmp_path / 'b.wav'}"]
    assert [len(sound) for sound in read_inputs(schedule, {"given": files})["given"]] == [1600, 3200]
    assert len(read_inputs(schedule, {"given": files[:1]})["given"]) == 1600
    Declared.inputs = (wanted("audio[S] @ 16 kHz"),)
    with pytest.raises(InputError, match="a single one; it is given 2 times"):
        read_inputs(schedule, {"given": files})
