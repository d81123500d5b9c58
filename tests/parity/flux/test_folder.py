"""What is wrong with a folder is said in one line before anything large is read; shards are read part by part."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

import omniflow
from omniflow.errors import BindError, InputError
from tests.parity.diffusion import PROMPTS, most_different, ours, program
from tests.parity.flux.conftest import Reference
from tests.parity.flux.reference import T5_LENGTH
from tests.parity.references import watching

pytestmark = pytest.mark.hf
References = Callable[..., Reference]
DIT = "transformer/diffusion_pytorch_model.safetensors"


def load(folder: Path, name: str = "flux/image") -> omniflow.Engine:
    return omniflow.load(program(folder, name, text_length=T5_LENGTH, steps=2))


def copy_of(reference: Reference, folder: Path) -> Path:
    return Path(shutil.copytree(reference.folder, folder / "copy"))


def change_json(path: Path, **values: Any) -> None:
    path.write_text(json.dumps({**json.loads(path.read_text()), **values}))


def complaint(folder: Path) -> str:
    with pytest.raises(BindError) as caught:
        load(folder)
    return str(caught.value)


def test_a_missing_tensor_is_named(references: References, tmp_path: Path) -> None:
    folder = copy_of(references(), tmp_path)
    tensors = load_file(folder / DIT)
    del tensors["proj_out.bias"]
    save_file(tensors, folder / DIT)
    assert "tensor proj_out.bias is missing" in complaint(folder)


def test_a_surplus_tensor_is_named_with_its_file(references: References, tmp_path: Path) -> None:
    folder = copy_of(references(), tmp_path)
    save_file({**load_file(folder / DIT), "extra.weight": torch.zeros(2)}, folder / DIT)
    message = complaint(folder)
    assert DIT in message
    assert "tensor extra.weight has no place in this architecture" in message


def test_a_tensor_of_another_shape_is_named(references: References, tmp_path: Path) -> None:
    folder = copy_of(references(), tmp_path)
    save_file({**load_file(folder / DIT), "proj_out.bias": torch.zeros(3)}, folder / DIT)
    assert "tensor proj_out.bias has shape [3], expected [16]" in complaint(folder)


def test_a_truncated_file_is_named(references: References, tmp_path: Path) -> None:
    folder = copy_of(references(), tmp_path)
    data = (folder / DIT).read_bytes()
    (folder / DIT).write_bytes(data[: len(data) // 2])
    message = complaint(folder)
    assert DIT in message
    assert "not a whole safetensors file" in message


@pytest.mark.parametrize(
    ("file", "change", "message"),
    [
        ("model_index.json", {"_class_name": "StableDiffusionPipeline"}, "_class_name is 'StableDiffusionPipeline'"),
        ("transformer/config.json", {"_class_name": "SD3Transformer2DModel"}, "this expert reads 'FluxTransformer2D"),
        ("transformer/config.json", {"new_trick": 1}, "new_trick is not known to FluxTransformer2DModel"),
        ("text_encoder/config.json", {"model_type": "bert"}, "model_type is 'bert'"),
        ("scheduler/scheduler_config.json", {"_class_name": "DDIMScheduler"}, "_class_name is 'DDIMScheduler'"),
        ("scheduler/scheduler_config.json", {"use_karras_sigmas": True}, "use_karras_sigmas = True is not supported"),
    ],
)
def test_what_is_not_supported_is_named(
    references: References, tmp_path: Path, file: str, change: dict[str, Any], message: str
) -> None:
    folder = copy_of(references(), tmp_path)
    change_json(folder / file, **change)
    said = complaint(folder)
    assert message in said
    assert file in said
    assert "\n" not in said


def test_nothing_is_read_of_a_part_whose_header_is_wrong(references: References, tmp_path: Path) -> None:
    folder = copy_of(references(), tmp_path)
    save_file({**load_file(folder / DIT), "proj_out.bias": torch.zeros(3)}, folder / DIT)
    read: list[str] = []
    from omniflow.experts.lean import Checkpoint

    with watching(Checkpoint, "read", lambda given, answer: read.append(given["0"].file_of(given["1"]))):
        complaint(folder)
    assert not [file for file in read if file.endswith(DIT)]


def test_shards_are_read_and_the_encoder_of_pictures_is_not(references: References) -> None:
    reference, whole = references(6, shard="20KB"), references(6)
    assert (reference.folder / "transformer" / "diffusion_pytorch_model.safetensors.index.json").is_file()
    read: list[str] = []
    from omniflow.experts.lean import Checkpoint

    with watching(Checkpoint, "read", lambda given, answer: read.append(given["1"])):
        running = load(reference.folder)
    assert any(name.startswith("decoder.") for name in read)
    assert not any(name.startswith("encoder.down_blocks") for name in read)
    inputs = {"prompt": PROMPTS[0], "height": 32, "width": 32}
    found, _ = ours(running, inputs, seed=1)
    wanted, _ = ours(load(whole.folder), inputs, seed=1)
    assert most_different(found.outputs["image"], wanted.outputs["image"]) <= 1e-6


@pytest.mark.parametrize("size", [0, -8, 100_000])
def test_a_size_that_no_picture_has_is_refused_at_the_door(references: References, size: int) -> None:
    with pytest.raises(InputError, match=f"input height is {size}, the (least|most) allowed is "):
        load(references().folder).submit({"prompt": PROMPTS[0], "height": size, "width": 32})


@pytest.mark.parametrize("size", [3, 1.5, True])
def test_a_size_that_is_none_is_refused(references: References, size: Any) -> None:
    result = load(references().folder).run({"prompt": PROMPTS[0], "height": size, "width": 32})
    assert result.state == "refused"
    assert "height must be a whole number from 4 to 8192" in str(result.error)
