"""CSM against transformers: the same frames and the same sound, alone and among strangers, whole and in chunks."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

import omniflow
from omniflow import Engine, Limits, Result
from omniflow.experts.csm_mimi import Mimi, load_mimi
from omniflow.experts.csm_text import load_backbone, load_depth
from omniflow.experts.lean import CheckpointError
from omniflow.roles import DecoderRows
from tests.parity.csm import reference
from tests.parity.csm.conftest import Reference
from tests.parity.csm.reference import CODES, GROUPS, HOP, Case

pytestmark = pytest.mark.hf
SPECS = Path(__file__).parents[3] / "specs" / "csm"
CLOSE = {"atol": 1e-5, "rtol": 0}
CPU = torch.device("cpu")


@cache
def engine(folder: Path, program: str = "tensors") -> Engine:
    return omniflow.load(omniflow.compile(SPECS / f"{program}.program.yaml", params={"weights": str(folder)}))


def params(case: Case) -> dict[str, Any]:
    own: dict[str, Any] = {"temperature": case.temperature, "top_k": 20} if case.sample else {"temperature": 0.0}
    own["suppress"] = list(case.suppress)
    asked = {f"speak.{loop}{name}": value for loop in ("", "deepen.") for name, value in own.items()}
    stop = [] if case.end is None else [case.end]
    return {**asked, "speak.max_tokens": case.max_frames, "speak.stop_frame": stop}


def inputs(case: Case, row: int = 0) -> dict[str, Any]:
    return {"tokens": torch.tensor(case.prompts[row])}


def outputs_of(result: Result | None) -> Mapping[str, Tensor]:
    assert result is not None
    assert result.error is None, result.error
    return result.outputs


@pytest.mark.parametrize("name", reference.cases())
def test_a_request_equals_transformers_in_frames_and_sound(tiny: Reference, name: str) -> None:
    recording, case = tiny.record(name), reference.cases()[name]
    for row in range(len(case.prompts)):
        asked = inputs(case, row)
        own = outputs_of(engine(tiny.folder).run(asked, seed=recording.seed, rng="torch", params=params(case)))
        assert own["codes"].tolist() == recording.codes[row]
        torch.testing.assert_close(own["audio"], recording.waves[row], **CLOSE)


@pytest.mark.parametrize("limits", [Limits(), Limits(width=2, step_tokens=5, min_prefill=2)], ids=["wide", "narrow"])
def test_all_cases_at_once_equal_each_alone_and_transformers(tiny: Reference, limits: Limits) -> None:
    running, asked = omniflow.load(engine(tiny.folder).schedule, limits=limits), {}
    for name, case in reference.cases().items():
        for row in range(len(case.prompts)):
            rng = "torch" if case.sample else "derived"
            seed = tiny.record(name).seed
            asked[running.submit(inputs(case, row), seed=seed, rng=rng, params=params(case))] = (name, row)
    while not running.is_idle:
        running.step()
    for request, (name, row) in asked.items():
        own, recording = outputs_of(running.result(request)), tiny.record(name)
        assert own["codes"].tolist() == recording.codes[row]
        torch.testing.assert_close(own["audio"], recording.waves[row], **CLOSE)
    assert running.live == 0
    running.bound.pools.check()


def test_a_frame_of_end_codes_ends_the_speech_as_in_transformers(tiny: Reference) -> None:
    """All codes but the last tell the end; the frame is heard all the same unless the last one tells it too."""
    few = tuple(range(2, reference.VOCABULARY))  # two codes are left to choose from: ends come soon
    lengths = []
    for start in range(8):
        prompt = tuple(3 + (7 * start + 5 * i) % 60 for i in range(6))
        case = Case(prompts=(prompt,), sample=True, temperature=20.0, end=0, suppress=few, max_frames=25)
        recording = tiny.run(case)
        own = outputs_of(engine(tiny.folder).run(inputs(case), seed=recording.seed, rng="torch", params=params(case)))
        assert own["codes"].tolist() == recording.codes[0]
        lengths.append(len(own["codes"]))
    assert sum(length < 25 for length in lengths) > 4


def test_a_speech_that_ends_at_once_is_silent(tiny: Reference) -> None:
    case = reference.cases()["text"]
    result = engine(tiny.folder).run(inputs(case), params=params(case) | {"speak.stop_frame": list(range(CODES))})
    assert outputs_of(result)["codes"].tolist() == []
    assert len(outputs_of(result)["audio"]) == 0
    assert result.record["nodes"]["speak"]["reasons"] == {"stop": 1}


def test_sound_begins_before_the_last_frame(tiny: Reference) -> None:
    running, case = omniflow.load(engine(tiny.folder).schedule, trace=True), reference.cases()["long"]
    outputs_of(running.run(inputs(case), params=params(case)))
    assert running.trace is not None
    order = [unit.node for unit in running.trace.units]
    assert order.index("wave") < max(i for i, node in enumerate(order) if node == "speak") // 2


def _decode(mimi: Mimi, state: Any, codes: Tensor) -> Tensor:
    row = DecoderRows(state=state, frames={"codes": codes}, left=0, new=len(codes), right=0, is_last=False)
    return mimi.decode([row])[0]


@pytest.mark.parametrize("sizes", [(1,) * 40, (3, 7, 1, 29), (40,)])
def test_sound_in_chunks_is_the_whole_sound_sample_for_sample(tiny: Reference, sizes: tuple[int, ...]) -> None:
    mimi = load_mimi(tiny.folder, dtype=torch.float32, device=CPU)
    codes = torch.randint(0, CODES, (40, GROUPS), generator=torch.Generator().manual_seed(1))
    state = mimi.open(generator=torch.Generator())
    pieces = [_decode(mimi, state, part) for part in codes.split(list(sizes))]
    assert [len(piece) for piece in pieces] == [HOP * size for size in sizes]
    with torch.no_grad():
        expected = tiny.model.codec_model.decode(codes.T[None]).audio_values[0, 0]
    torch.testing.assert_close(torch.cat(pieces), expected, **CLOSE)


def test_text_is_read_aloud_from_letters_to_sound(tiny: Reference, tmp_path: Path) -> None:
    folder = tmp_path / "model"
    shutil.copytree(tiny.folder, folder)
    reference.add_tokenizer(folder)
    case = Case(prompts=((reference.TEXT_BOS, 4, 5, 6, 7, 3),))
    own = outputs_of(engine(folder, "speech").run({"text": "the sun is out"}, params=params(case)))
    torch.testing.assert_close(own["audio"], tiny.run(case).waves[0], **CLOSE)


LOADERS = {
    "backbone": (load_backbone, {"cache_bytes": 1 << 20, "block_tokens": 8}, "embed_text_tokens.weight"),
    "depth": (load_depth, {"cache_bytes": 1 << 20, "block_tokens": 8}, "depth_decoder.codebooks_head.weight"),
    "mimi": (load_mimi, {}, "codec_model.upsample.conv.weight"),
}


@pytest.mark.parametrize("part", LOADERS)
def test_a_missing_a_wrong_and_a_surplus_tensor_are_named_with_their_file(
    tiny: Reference, tmp_path: Path, part: str
) -> None:
    load, options, name = LOADERS[part]
    tensors = load_file(tiny.folder / "model.safetensors")
    folder = tmp_path / "model"
    shutil.copytree(tiny.folder, folder)
    file = folder / "model.safetensors"
    for changed, message in (
        ({key: value for key, value in tensors.items() if key != name}, f"tensor {name} is missing"),
        ({**tensors, name: torch.zeros(3)}, rf"model.safetensors: tensor {name} has shape \[3\], expected"),
        (
            {**tensors, f"{name.removesuffix('weight')}extra": torch.zeros(1)},
            "extra has no place in this architecture",
        ),
    ):
        save_file(changed, file)
        with pytest.raises(CheckpointError, match=message):
            load(folder, dtype=torch.float32, device=CPU, **options)


def test_another_architecture_and_another_codec_are_refused(tiny: Reference, tmp_path: Path) -> None:
    folder = tmp_path / "model"
    shutil.copytree(tiny.folder, folder)
    config = (folder / "config.json").read_text(encoding="utf-8")
    (folder / "config.json").write_text(config.replace('"pad_mode": "constant"', '"pad_mode": "reflect"'), "utf-8")
    with pytest.raises(CheckpointError, match="pad_mode = 'reflect' of mimi is not supported, only 'constant'"):
        load_mimi(folder, dtype=torch.float32, device=CPU)
    (folder / "config.json").write_text(config.replace('"model_type": "csm"', '"model_type": "moshi"'), "utf-8")
    with pytest.raises(CheckpointError, match="model_type is 'moshi', this expert reads 'csm'"):
        load_backbone(folder, dtype=torch.float32, device=CPU, cache_bytes=1 << 20, block_tokens=8)
