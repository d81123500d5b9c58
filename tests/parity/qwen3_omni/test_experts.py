"""The experts alone against transformers' modules: same numbers, and a row's do not depend on its neighbours."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

from omniflow.experts.lean import CheckpointError
from omniflow.experts.qwen3_omni_audio import load_audio
from omniflow.experts.qwen3_omni_code2wav import Code2Wav, load_code2wav
from omniflow.experts.qwen3_omni_talker import load_predictor, load_talker
from omniflow.experts.qwen3_omni_text import load_thinker
from omniflow.experts.qwen3_omni_vision import load_vision
from omniflow.roles import DecoderRows, TokenRows
from tests.parity.qwen3_omni import reference
from tests.parity.qwen3_omni.conftest import Reference

pytestmark = pytest.mark.hf
CPU = torch.device("cpu")
CLOSE = {"atol": 1e-5, "rtol": 0}


def _cached(load: Any, folder: Path) -> Any:
    return load(folder, dtype=torch.float32, device=CPU, cache_bytes=1 << 20, block_tokens=8)


def _plain(load: Any, folder: Path) -> Any:
    return load(folder, dtype=torch.float32, device=CPU)


def _noise(seed: int, *shape: int) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


def test_audio_embeddings_equal_transformers_alone_and_among_others(tiny: Reference) -> None:
    """A neighbour of another length changes what transformers gives for a short sound; here it does not."""
    tower = _plain(load_audio, tiny.folder)
    clips = [_noise(i, reference.MELS, frames) for i, frames in enumerate((27, 100, 5, 348))]
    together = tower.encode([{"features": clip} for clip in clips])
    for clip, row in zip(clips, together, strict=True):
        with torch.no_grad():
            lengths = torch.tensor([clip.shape[1]])
            expected = tiny.model.thinker.model.audio_tower(clip, feature_lens=lengths).last_hidden_state
        torch.testing.assert_close(row["embeds"], expected, **CLOSE)
        torch.testing.assert_close(tower.encode([{"features": clip}])[0]["embeds"], expected, **CLOSE)


def test_picture_embeddings_and_deep_features_equal_transformers_alone_and_among_others(tiny: Reference) -> None:
    tower = _plain(load_vision, tiny.folder)
    grids = [(1, 4, 6), (1, 2, 2), (2, 6, 10), (1, 8, 8)]
    rows = [{"pixels": _noise(i, t * h * w, 24), "grid": torch.tensor([t, h, w])} for i, (t, h, w) in enumerate(grids)]
    together = tower.encode(rows)
    for row, own in zip(rows, together, strict=True):
        with torch.no_grad():
            expected = tiny.model.thinker.model.visual(row["pixels"], grid_thw=row["grid"][None])
        torch.testing.assert_close(own["embeds"], expected.pooler_output, **CLOSE)
        torch.testing.assert_close(own["deep"], torch.stack(expected.deepstack_features, 1), **CLOSE)
        torch.testing.assert_close(tower.encode([row])[0]["deep"], own["deep"], **CLOSE)


def test_a_grid_that_its_patches_do_not_fill_is_refused(tiny: Reference) -> None:
    tower = _plain(load_vision, tiny.folder)
    with pytest.raises(ValueError, match=r"grid \[1, 4, 6\] and its 23 patches"):
        tower.encode([{"pixels": torch.zeros(23, 24), "grid": torch.tensor([1, 4, 6])}])


def test_the_tapped_layer_of_a_picture_is_read_before_deep_features_are_added(tiny: Reference) -> None:
    thinker, eyes = _cached(load_thinker, tiny.folder), _plain(load_vision, tiny.folder)
    case, crossed = tiny.case("picture"), tiny.record("picture").crossed
    tokens = torch.tensor(case.prompts[0])
    marked = tokens == reference.IMAGE
    seen = eyes.encode([{"pixels": case.pixels, "grid": torch.tensor(case.grid)}])[0]
    deep = torch.zeros(len(tokens), *seen["deep"].shape[1:])
    deep[marked] = seen["deep"]
    start = int(marked.nonzero()[0])
    rows, columns = torch.arange(2).repeat_interleave(3), torch.arange(3).repeat(2)
    rest = torch.arange(start + 3, start + 3 + len(tokens) - start - 6)
    places = torch.stack(
        [torch.cat([torch.arange(start), start + axis, rest]) for axis in (torch.zeros(6).long(), rows, columns)], dim=1
    )
    sequence = thinker.open({"positions": places, "deep": deep}, max_positions=len(tokens))
    taps = []
    for part in crossed["embeds"][0, : len(tokens)].split([7, len(tokens) - 7]):
        (result,) = thinker.step([TokenRows(sequence=sequence, embeds=part, wants_hidden=True)])
        taps.append(result.taps["accept"])
    torch.testing.assert_close(torch.cat(taps), crossed["accept"][0, : len(tokens)], **CLOSE)
    thinker.close(sequence)
    assert thinker.decoder.arena.num_live == 0


def test_frames_of_the_predictor_are_those_of_transformers_for_rows_at_other_steps(tiny: Reference) -> None:
    predictor, talker = _cached(load_predictor, tiny.folder), _cached(load_talker, tiny.folder)
    hiddens, firsts = _noise(1, 3, 32), torch.tensor([5, 40, 17])
    expected = []
    for hidden, first in zip(hiddens, firsts, strict=True):
        with torch.no_grad():
            embeds = torch.stack([hidden, tiny.model.talker.get_input_embeddings()(first)])[None]
            ids = tiny.model.talker.code_predictor.generate(
                inputs_embeds=embeds, max_new_tokens=reference.GROUPS - 1, do_sample=False
            )
        expected.append(ids[0].tolist())
    sequences, feeds, found = [], [], [[], [], []]
    for i in range(3):
        conditions = {"hidden": hiddens[i : i + 1], "first": talker.embed(firsts[i : i + 1])}
        sequences.append(predictor.open(conditions, max_positions=8))
        feeds.append({"embeds": predictor.prompt(conditions)})
    for step in range(8):  # row i begins i steps later
        now = [i for i in range(3) if i <= step and len(found[i]) < reference.GROUPS - 1]
        results = predictor.step([TokenRows(sequence=sequences[i], **feeds[i]) for i in now])
        for i, result in zip(now, results, strict=True):
            found[i].append(int(result.logits.argmax()))
            feeds[i] = {"ids": torch.tensor(found[i][-1:])}
    assert found == expected


def _piece(vocoder: Code2Wav, state: Any, codes: Tensor) -> DecoderRows:
    return DecoderRows(state=state, frames={"codes": codes}, left=0, new=len(codes), right=0, is_last=False)


def test_clips_at_different_places_share_batches_and_equal_transformers(tiny: Reference) -> None:
    vocoder = _plain(load_code2wav, tiny.folder)
    generator = torch.Generator().manual_seed(3)
    shapes = [(frames, reference.GROUPS) for frames in (24, 16, 8)]
    clips = [torch.randint(0, reference.CODES, shape, generator=generator) for shape in shapes]
    states = [vocoder.open(generator=generator) for _ in clips]
    pieces: list[list[Tensor]] = [[], [], []]
    for start in range(0, 24, 4):
        now = [i for i, clip in enumerate(clips) if 0 <= start - 4 * i < len(clip)]
        rows = [_piece(vocoder, states[i], clips[i][start - 4 * i : start - 4 * i + 4]) for i in now]
        for i, piece in zip(now, vocoder.decode(rows), strict=True):
            pieces[i].append(piece)
    for i, clip in enumerate(clips):
        done = torch.cat(pieces[i])
        with torch.no_grad():
            expected = tiny.model.code2wav(clip.T[None]).reshape(-1)
        torch.testing.assert_close(done, expected[: len(done)], **CLOSE)
        assert len(done) == min(len(clip), 24 - 4 * i) * reference.HOP - reference.LOST


def test_a_code_outside_the_table_is_refused(tiny: Reference) -> None:
    vocoder = _plain(load_code2wav, tiny.folder)
    codes = torch.full((3, reference.GROUPS), reference.CODES)
    with pytest.raises(ValueError, match="5 codes below 48"):
        vocoder.decode([_piece(vocoder, vocoder.open(generator=torch.Generator()), codes)])


LOADERS = {
    "thinker": (load_thinker, _cached, "thinker.model.layers.1.mlp.gate.weight"),
    "talker": (load_talker, _cached, "talker.text_projection.linear_fc2.bias"),
    "predictor": (load_predictor, _cached, "talker.code_predictor.lm_head.2.weight"),
    "audio": (load_audio, _plain, "thinker.audio_tower.conv_out.weight"),
    "vision": (load_vision, _plain, "thinker.visual.merger_list.1.ln_q.weight"),
    "code2wav": (load_code2wav, _plain, "code2wav.decoder.1.block.0.alpha"),
}


@pytest.mark.parametrize("part", LOADERS)
def test_a_missing_a_wrong_and_a_surplus_tensor_are_named_with_their_file(
    tiny: Reference, tmp_path: Path, part: str
) -> None:
    load, how, name = LOADERS[part]
    tensors = load_file(tiny.folder / "model.safetensors")
    folder = tmp_path / "model"
    shutil.copytree(tiny.folder, folder)
    file = folder / "model.safetensors"
    save_file({key: value for key, value in tensors.items() if key != name}, file)
    with pytest.raises(CheckpointError, match=f"tensor {name} is missing"):
        how(load, folder)
    save_file({**tensors, name: torch.zeros(3, 3, 3, 3)}, file)
    with pytest.raises(CheckpointError, match=rf"model.safetensors: tensor {name} has shape \[3, 3, 3, 3\], expected"):
        how(load, folder)
    surplus = name.rpartition(".")[0] + ".extra"
    save_file({**tensors, surplus: torch.zeros(1)}, file)
    with pytest.raises(CheckpointError, match=f"tensor {surplus} has no place in this architecture"):
        how(load, folder)
    file.write_bytes(file.read_bytes()[:-100])
    with pytest.raises(CheckpointError, match=r"model.safetensors: not a whole safetensors file"):
        how(load, folder)


def test_another_architecture_is_refused(tiny: Reference, tmp_path: Path) -> None:
    config = (tiny.folder / "config.json").read_text(encoding="utf-8")
    (tmp_path / "config.json").write_text(config.replace('"qwen3_omni_moe"', '"qwen2_5_omni"'), encoding="utf-8")
    for load, how, _ in LOADERS.values():
        with pytest.raises(CheckpointError, match="model_type is 'qwen2_5_omni', this expert reads 'qwen3_omni_moe'"):
            how(load, tmp_path)
