"""MusicGen against transformers: the same codes and the same music, alone and among strangers, whole and in chunks."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

import omniflow
from omniflow import Engine, Faults, Limits, Result
from omniflow.errors import BindError
from omniflow.experts.lean import CheckpointError
from omniflow.experts.musicgen_decoder import load_decoder
from omniflow.experts.musicgen_encodec import Encodec, load_encodec
from omniflow.roles import DecoderRows, TokenRows
from tests.parity.musicgen import reference
from tests.parity.musicgen.conftest import Reference
from tests.parity.musicgen.reference import CODEBOOKS, CODES, FILLER, HOP, Case

pytestmark = pytest.mark.hf
SPECS = Path(__file__).parents[3] / "specs" / "musicgen"
CLOSE = {"atol": 1e-5, "rtol": 0}
CPU = torch.device("cpu")
TOKEN_BYTES = 2 * 2 * 32 * 4  # keys and values of two layers


@cache
def engine(folder: Path, program: str = "tensors") -> Engine:
    return omniflow.load(omniflow.compile(SPECS / f"{program}.program.yaml", params={"weights": str(folder)}))


def params(case: Case) -> dict[str, Any]:
    own = {"temperature": case.temperature if case.sample else 0.0, "top_k": case.top_k, "cfg": case.cfg}
    return {f"compose.{name}": value for name, value in {**own, "max_tokens": case.frames}.items()}


def inputs(case: Case, row: int = 0) -> dict[str, Any]:
    return {"tokens": torch.tensor(case.prompts[row])}


def outputs_of(result: Result | None) -> Mapping[str, Tensor]:
    assert result is not None
    assert result.error is None, result.error
    return result.outputs


@pytest.mark.parametrize("name", reference.cases())
def test_a_request_equals_transformers_in_codes_and_music(tiny: Reference, name: str) -> None:
    recording, case = tiny.record(name), reference.cases()[name]
    for row in range(len(case.prompts)):
        asked = inputs(case, row)
        own = outputs_of(engine(tiny.folder).run(asked, seed=recording.seed, rng="torch", params=params(case)))
        assert own["codes"].tolist() == recording.codes[row]
        assert len(set(map(tuple, recording.codes[row]))) > 2  # nothing that a constant could say
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


def test_in_bfloat16_logits_are_nearly_those_of_float32(tiny: Reference) -> None:
    found = []
    for dtype in (torch.float32, torch.bfloat16):
        decoder = load_decoder(tiny.folder, dtype=dtype, device=CPU, cache_bytes=1 << 20, block_tokens=16)
        text = torch.randn(5, 24, generator=torch.Generator().manual_seed(2))
        sequence = decoder.open({"text": text}, max_positions=4)
        assert sequence is not None
        ids = torch.tensor([[FILLER] * CODEBOOKS, [3, FILLER, FILLER, FILLER]])
        (result,) = decoder.step([TokenRows(sequence=sequence, ids=ids)])
        assert result.logits is not None
        assert result.logits.dtype == torch.float32
        found.append(result.logits)
    assert 0 < (found[0] - found[1]).abs().max() < 0.05 * found[0].abs().max()


def test_a_text_as_wide_as_the_decoder_needs_no_projection(tmp_path: Path) -> None:
    torch.set_num_threads(1)
    model = reference.build(tmp_path, 5, sizes={"text": {"d_model": 32, "d_kv": 16}})
    case = reference.cases()["guided"]
    recording = reference.record(model, case, seed=0)
    own = outputs_of(engine(tmp_path).run(inputs(case), params=params(case)))
    assert "enc_to_dec_proj.weight" not in load_file(tmp_path / "model.safetensors")
    assert own["codes"].tolist() == recording.codes[0]
    torch.testing.assert_close(own["audio"], recording.waves[0], **CLOSE)


@pytest.mark.parametrize("name", ["guided", "long", "sampled", "sampled_plain", "padded_batch"])
def test_two_channels_equal_transformers(stereo: Reference, name: str) -> None:
    recording, case = stereo.record(name), reference.cases()[name]
    running = engine(stereo.folder, "stereo")
    for row, prompt in enumerate(case.prompts):
        tokens = running.bound.experts["tokenizer"]
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(tokens, "encode", lambda text, prompt=prompt: list(prompt[:-1]))
            own = outputs_of(running.run({"prompt": "?"}, seed=recording.seed, rng="torch", params=params(case)))
        assert own["codes"].tolist() == recording.codes[row]
        assert own["audio"].shape == (HOP * case.frames, 2)
        torch.testing.assert_close(own["audio"], recording.waves[row], **CLOSE)
        assert not torch.equal(own["audio"][:, 0], own["audio"][:, 1])


def test_a_program_for_one_channel_is_not_taken_for_two(stereo: Reference, tiny: Reference) -> None:
    with pytest.raises(Faults, match=r"`delays` of loop `compose` has 4 numbers, `musicgen\.decoder` chooses 8"):
        engine(stereo.folder)
    for folder, channels, found in ((stereo.folder, 1, 2), (tiny.folder, 2, 1)):
        with pytest.raises(CheckpointError, match=f"audio_channels = {found} of musicgen_decoder is not supported"):
            load_encodec(folder, dtype=torch.float32, device=CPU, channels=channels)


def test_guidance_changes_the_codes(tiny: Reference) -> None:
    case = reference.cases()["guided"]
    assert tiny.run(case).codes != tiny.run(replace(case, cfg=1.0)).codes


@pytest.mark.parametrize("frames", [1, 2, 5])
def test_few_frames_are_behind_each_other_as_many_are(tiny: Reference, frames: int) -> None:
    """transformers leaves the delays out where frames are fewer than those, as no model was trained to write."""
    case = replace(reference.cases()["guided"], frames=frames)
    own = outputs_of(engine(tiny.folder).run(inputs(case), params=params(case)))["codes"]
    assert own.tolist() == reference.delayed(tiny.model, case)
    own_of_reference = tiny.run(case).codes[0]
    assert (len(own_of_reference) == frames) == (frames > 2)


def test_no_frames_are_silence(tiny: Reference) -> None:
    case = replace(reference.cases()["guided"], frames=0)
    own = outputs_of(engine(tiny.folder).run(inputs(case), params=params(case)))
    assert own["codes"].tolist() == []
    assert len(own["audio"]) == 0


def test_music_begins_before_the_last_frame(tiny: Reference) -> None:
    running, case = omniflow.load(engine(tiny.folder).schedule, trace=True), reference.cases()["long"]
    outputs_of(running.run(inputs(case), params=params(case)))
    assert running.trace is not None
    order = [unit.node for unit in running.trace.units]
    assert order.index("wave") < max(i for i, node in enumerate(order) if node == "compose") // 2


def test_a_guided_step_of_several_requests_is_one_forward(tiny: Reference) -> None:
    running, case = omniflow.load(engine(tiny.folder).schedule), reference.cases()["guided"]
    seen: list[int] = []
    decoder = running.bound.experts["decoder"]
    step = decoder.step
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(decoder, "step", lambda rows: seen.append(len(rows)) or step(rows))
        for _ in range(3):
            running.submit(inputs(case), params=params(case))
        while not running.is_idle:
            running.step()
    assert set(seen) == {6}
    assert len(seen) == case.frames + CODEBOOKS - 1


def _decode(encodec: Encodec, state: Any, codes: Tensor, *, is_last: bool) -> Tensor:
    row = DecoderRows(state=state, frames={"codes": codes}, left=0, new=len(codes), right=0, is_last=is_last)
    return encodec.decode([row])[0]


SOUNDS: Mapping[str, Mapping[str, Any]] = {
    "published": {},
    "causal": {"use_causal_conv": True, "use_conv_shortcut": True},
    "cut in front": {"use_causal_conv": True, "trim_right_ratio": 0.5},
    "silence around": {"pad_mode": "constant"},
    "dilated": {"num_residual_layers": 3, "dilation_growth_rate": 3, "upsampling_ratios": [5, 3]},
}


@pytest.mark.parametrize("kind", SOUNDS)
def test_music_in_chunks_is_the_whole_sample_for_sample(kind: str, tmp_path: Path) -> None:
    torch.set_num_threads(1)
    model = reference.build(tmp_path, 3, **SOUNDS[kind])
    encodec = load_encodec(tmp_path, dtype=torch.float32, device=CPU, channels=1)
    codes = torch.randint(0, CODES, (40, CODEBOOKS), generator=torch.Generator().manual_seed(1))
    for sizes in ((1,) * 40, (3, 7, 1, 29), (40,), (1, 1), (1,), (2,)):
        mine = codes[: sum(sizes)]
        state, parts = encodec.open(generator=torch.Generator()), mine.split(list(sizes))
        pieces = [_decode(encodec, state, part, is_last=i == len(parts) - 1) for i, part in enumerate(parts)]
        with torch.no_grad():
            expected = model.audio_encoder.decode(mine.T[None, None], [None]).audio_values[0, 0]
        torch.testing.assert_close(torch.cat(pieces), expected, **CLOSE)
        state = encodec.open(generator=torch.Generator())
        pieces = [_decode(encodec, state, part, is_last=False) for part in parts]
        pieces.append(_decode(encodec, state, mine[:0], is_last=True))  # the end comes behind the last frame
        torch.testing.assert_close(torch.cat(pieces), expected, **CLOSE)


def test_a_text_is_played_from_letters_to_music(tiny: Reference) -> None:
    case = Case(prompts=((2, 4, 5, 6, 7, reference.TEXT_END),))
    own = outputs_of(engine(tiny.folder, "music").run({"prompt": "slow drums and a piano"}, params=params(case)))
    torch.testing.assert_close(own["audio"], tiny.run(case).waves[0], **CLOSE)
    assert len(own["audio"]) == case.frames * HOP


def test_the_tensors_that_old_checkpoints_keep_under_other_names_are_read(tiny: Reference, tmp_path: Path) -> None:
    folder = tmp_path / "model"
    shutil.copytree(tiny.folder, folder)
    tensors = load_file(folder / "model.safetensors")
    old = {".parametrizations.weight.original0": ".weight_g", ".parametrizations.weight.original1": ".weight_v"}
    for new, name in old.items():
        tensors = {key.replace(new, name): value for key, value in tensors.items()}
    tensors["decoder.model.decoder.embed_positions.weights"] = torch.zeros(64, 32)
    save_file(tensors, folder / "model.safetensors")
    case = reference.cases()["guided"]
    own = outputs_of(engine(folder).run(inputs(case), params=params(case)))
    torch.testing.assert_close(own["audio"], tiny.record("guided").waves[0], **CLOSE)


LOADERS = {
    "decoder": (load_decoder, {"cache_bytes": 1 << 20, "block_tokens": 8}, "decoder.model.decoder.layer_norm.weight"),
    "projection": (load_decoder, {"cache_bytes": 1 << 20, "block_tokens": 8}, "enc_to_dec_proj.weight"),
    "encodec": (load_encodec, {"channels": 1}, "audio_encoder.decoder.layers.3.conv.bias"),
    "pair": (load_encodec, {"channels": 1}, "audio_encoder.decoder.layers.0.conv.parametrizations.weight.original0"),
}


@pytest.mark.parametrize("part", LOADERS)
def test_a_missing_a_wrong_and_a_surplus_tensor_are_named_with_their_file(
    tiny: Reference, tmp_path: Path, part: str
) -> None:
    load, options, name = LOADERS[part]
    tensors = load_file(tiny.folder / "model.safetensors")
    folder = tmp_path / "model"
    shutil.copytree(tiny.folder, folder)
    for changed, message in (
        ({key: value for key, value in tensors.items() if key != name}, f"tensor {name} is missing"),
        ({**tensors, name: torch.zeros(3)}, rf"model.safetensors: tensor {name} has shape \[3\], expected"),
        ({**tensors, f"{name.rpartition('.')[0]}.extra": torch.zeros(1)}, "extra has no place in this architecture"),
    ):
        save_file(changed, folder / "model.safetensors")
        with pytest.raises(CheckpointError, match=message):
            load(folder, dtype=torch.float32, device=CPU, **options)


@pytest.mark.parametrize("name", ["text_encoder.shared.weight", "text_encoder.encoder.final_layer_norm.weight"])
def test_a_text_encoder_without_a_tensor_is_told_before_anything_runs(
    tiny: Reference, tmp_path: Path, name: str
) -> None:
    folder = tmp_path / "model"
    shutil.copytree(tiny.folder, folder)
    tensors = load_file(tiny.folder / "model.safetensors")
    save_file({key: value for key, value in tensors.items() if key != name}, folder / "model.safetensors")
    with pytest.raises(BindError, match=r"component t5 \(musicgen.t5\) cannot be loaded: .* is missing"):
        engine(folder)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('"model_type": "musicgen"', '"model_type": "musicgen_melody"', "model_type is 'musicgen_melody', this expert"),
        ('"model_type": "encodec"', '"model_type": "dac"', "model_type of audio_encoder is 'dac', this expert reads"),
        ('"activation_function": "gelu"', '"activation_function": "relu"', "activation_function = 'relu' of music"),
    ],
)  # fmt: skip
def test_another_architecture_and_another_form_of_this_one_are_refused(
    tiny: Reference, tmp_path: Path, old: str, new: str, message: str
) -> None:
    folder = tmp_path / "model"
    shutil.copytree(tiny.folder, folder)
    written = (folder / "config.json").read_text(encoding="utf-8")
    assert old in written
    (folder / "config.json").write_text(written.replace(old, new), encoding="utf-8")
    load = load_encodec if "encodec" in old else load_decoder
    options = {"channels": 1} if "encodec" in old else {"cache_bytes": 1 << 20, "block_tokens": 8}
    with pytest.raises(CheckpointError, match=message):
        load(folder, dtype=torch.float32, device=CPU, **options)


def test_a_guided_request_that_gives_way_to_another_comes_back_as_it_was(tiny: Reference) -> None:
    """The cache has room for the two sequences of one request; a more urgent one takes it meanwhile."""
    case, schedule = reference.cases()["guided"], engine(tiny.folder).schedule
    running = omniflow.load(replace(schedule, caches=(replace(schedule.caches[0], max_bytes=2 * 32 * TOKEN_BYTES),)))
    pool = running.bound.stores.pools["decoder"]
    assert pool.num_used == 0
    first = running.submit(inputs(case), params=params(case))
    for _ in range(8):
        running.step()
    used = pool.num_used
    second = running.submit(inputs(case), params=params(case), priority=1)
    aside: list[int] = []
    with pytest.MonkeyPatch.context() as patch:
        set_aside = pool.set_aside
        patch.setattr(pool, "set_aside", lambda sequence: aside.append(sequence.num_cached) or set_aside(sequence))
        while not running.is_idle:
            running.step()
    assert used == 64
    assert len(aside) == 2
    assert aside[0] == aside[1] + 10  # the one has cached its text too
    for request in (first, second):
        assert outputs_of(running.result(request))["codes"].tolist() == tiny.record("guided").codes[0]
    running.bound.pools.check()
    assert running.live == 0


def test_a_cache_with_room_for_one_sequence_of_a_guided_request_is_told(tiny: Reference) -> None:
    case, schedule = reference.cases()["guided"], engine(tiny.folder).schedule
    running = omniflow.load(replace(schedule, caches=(replace(schedule.caches[0], max_bytes=48 * TOKEN_BYTES),)))
    result = running.run(inputs(case), params=params(case))
    assert result.error is not None
    assert "it needs 2 sequences of 18 positions, more than the empty cache of decoder gives" in str(result.error)
    assert outputs_of(running.run(inputs(case), params={**params(case), "compose.cfg": 1.0}))
    running.bound.pools.check()
