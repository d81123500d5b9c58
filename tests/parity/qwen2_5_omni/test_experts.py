"""The experts alone against transformers' modules: same numbers, and a row's do not depend on its neighbours."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from omniflow.experts.lean import CheckpointError
from omniflow.experts.qwen2_5_omni_audio import load_audio
from omniflow.experts.qwen2_5_omni_bigvgan import BigVgan, load_bigvgan
from omniflow.experts.qwen2_5_omni_dit import load_dit
from omniflow.experts.qwen2_5_omni_speaker import load_speaker
from omniflow.experts.qwen2_5_omni_text import Placed, load_talker, load_thinker
from omniflow.experts.qwen2_5_omni_vision import load_vision
from omniflow.experts.qwen2_5_omni_voices import load_voices
from omniflow.roles import DecoderRows, TokenRows
from tests.parity.qwen2_5_omni import reference
from tests.parity.qwen2_5_omni.conftest import Reference

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
    tower = _plain(load_audio, tiny.folder)
    clips = [_noise(i, reference.MELS, frames) for i, frames in enumerate((27, 12, 5, 48))]
    together = tower.encode([{"features": clip} for clip in clips])
    for clip, row in zip(clips, together, strict=True):
        with torch.no_grad():
            lengths = torch.tensor([clip.shape[1]])
            expected = tiny.model.thinker.model.audio_tower(clip, feature_lens=lengths).last_hidden_state
        torch.testing.assert_close(row["embeds"], expected, **CLOSE)
        torch.testing.assert_close(tower.encode([{"features": clip}])[0]["embeds"], expected, **CLOSE)


def test_picture_embeddings_equal_transformers_alone_and_among_others(tiny: Reference) -> None:
    tower = _plain(load_vision, tiny.folder)
    grids = [(1, 4, 6), (1, 2, 2), (2, 6, 10), (1, 8, 8)]
    pixels = [_noise(i, t * h * w, 24) for i, (t, h, w) in enumerate(grids)]
    rows = [{"pixels": own, "grid": torch.tensor(grid)} for own, grid in zip(pixels, grids, strict=True)]
    together = tower.encode(rows)
    for row, own in zip(rows, together, strict=True):
        with torch.no_grad():
            expected = tiny.model.thinker.model.visual(row["pixels"], grid_thw=row["grid"][None]).pooler_output
        torch.testing.assert_close(own["embeds"], expected, **CLOSE)
        torch.testing.assert_close(tower.encode([row])[0]["embeds"], expected, **CLOSE)


def test_a_grid_that_its_patches_do_not_fill_is_refused(tiny: Reference) -> None:
    tower = _plain(load_vision, tiny.folder)
    with pytest.raises(ValueError, match=r"grid \[1, 4, 6\] and its 23 patches"):
        tower.encode([{"pixels": torch.zeros(23, 24), "grid": torch.tensor([1, 4, 6])}])


def test_the_timbre_of_a_voice_equals_transformers(tiny: Reference) -> None:
    encoder = _plain(load_speaker, tiny.folder)
    clip = load_voices(tiny.folder, device=CPU).voice("Ethan").reference
    own = encoder.encode([{"mel": clip}])[0]
    with torch.no_grad():
        clips = torch.stack([clip, torch.zeros_like(clip)])
        expected = tiny.model.token2wav.code2wav_dit_model.input_embed.spk_encoder(clips)
    torch.testing.assert_close(torch.stack([own["timbre"], own["neutral"]]), expected, **CLOSE)


def test_velocities_equal_transformers_whatever_the_neighbours(tiny: Reference) -> None:
    dit, encoder = _plain(load_dit, tiny.folder), _plain(load_speaker, tiny.folder)
    voices = load_voices(tiny.folder, device=CPU)
    latents, times, conditions, expected = [], [], [], []
    for i, (frames, name, time) in enumerate([(26, "Chelsie", 0.0), (8, "Ethan", 0.4), (2, "Chelsie", 0.9)]):
        voice = voices.voice(name)
        codes = torch.randint(0, reference.CODES, (frames // 2,), generator=torch.Generator().manual_seed(i))
        own = {"codes": codes, "speaker": voice.vector, **encoder.encode([{"mel": voice.reference}])[0]}
        noise = _noise(i, frames, reference.CODE_MELS)
        with torch.no_grad():
            guided = tiny.model.token2wav.code2wav_dit_model(
                hidden_states=noise[None],
                condition_vector=voice.reference[None],
                speaker_embedding=voice.vector.expand(1, frames, -1),
                quantized_code=codes[None],
                time_step=torch.tensor(time),
            )
        latents += [noise, noise]
        times += [time, time]
        conditions += [own, dit.unconditional(own)]
        expected += [guided[0], guided[1]]
    for own, want in zip(dit.velocity(latents, times, conditions), expected, strict=True):
        torch.testing.assert_close(own, want, **CLOSE)
    for i, want in enumerate(expected):
        (alone,) = dit.velocity(latents[i : i + 1], times[i : i + 1], conditions[i : i + 1])
        torch.testing.assert_close(alone, want, **CLOSE)
    prepared = [dit.prepare(own) for own in conditions]
    for own, want in zip(dit.velocity(latents, times, prepared), expected, strict=True):
        torch.testing.assert_close(own, want, **CLOSE)


def test_a_clip_of_no_frames_has_no_velocity(tiny: Reference) -> None:
    dit = _plain(load_dit, tiny.folder)
    (none,) = dit.velocity([torch.zeros(0, reference.CODE_MELS)], [0.5], [{"given": torch.zeros(0, dit.config.width)}])
    assert none.shape == (0, reference.CODE_MELS)


def test_codes_outside_the_table_are_refused_before_anything_is_computed(tiny: Reference) -> None:
    dit = _plain(load_dit, tiny.folder)
    with pytest.raises(ValueError, match="codes must be 0 to 80, got 3 to 81"):
        dit.initial({"codes": torch.tensor([3, 81])}, generator=torch.Generator())
    with pytest.raises(ValueError, match="513 codes are 1026 frames, this checkpoint decodes at most 1024"):
        dit.initial({"codes": torch.zeros(513, dtype=torch.int64)}, generator=torch.Generator())


def _whole(vocoder: BigVgan, mel: Tensor) -> DecoderRows:
    state = vocoder.open(generator=torch.Generator())
    return DecoderRows(state=state, frames={"mel": mel}, left=0, new=len(mel), right=0, is_last=True)


def test_waves_equal_transformers_for_rows_of_other_lengths_in_one_call(tiny: Reference) -> None:
    vocoder = _plain(load_bigvgan, tiny.folder)
    names = ("text", "padded_batch", "codes_eos")
    recordings = [(tiny.record(name).crossed["mel.0"][0].T, tiny.record(name).waves[0]) for name in names]
    own = vocoder.decode([_whole(vocoder, mel) for mel, _ in recordings])
    for wave, (_, expected) in zip(own, recordings, strict=True):
        torch.testing.assert_close(wave, expected, **CLOSE)


def test_a_wave_in_chunks_with_enough_context_equals_the_whole(tiny: Reference) -> None:
    vocoder = _plain(load_bigvgan, tiny.folder)
    mel = tiny.record("text").crossed["mel.0"][0].T
    (whole,) = vocoder.decode([_whole(vocoder, mel)])
    state, pieces, context = vocoder.open(generator=torch.Generator()), [], 24
    for start in range(0, len(mel), 16):
        stop = min(start + 16, len(mel))
        first, last = max(start - context, 0), min(stop + context, len(mel))
        row = DecoderRows(
            state=state, frames={"mel": mel[first:last]}, left=start - first, new=stop - start, right=last - stop,
            is_last=stop == len(mel),
        )  # fmt: skip
        pieces += vocoder.decode([row])
    torch.testing.assert_close(torch.cat(pieces), whole, **CLOSE)


def _follow(expert: Placed, rows: Tensor, places: Tensor | None, chunks: Sequence[int]) -> Tensor:
    """Final hidden states of rows fed in chunks, the first of which is the prompt with its places."""
    sequence = expert.open({} if places is None else {"positions": places}, max_positions=len(rows))
    assert sequence is not None
    hidden = []
    for part in rows.split(list(chunks)):
        (result,) = expert.step([TokenRows(sequence=sequence, embeds=part, wants_hidden=True)])
        assert result.hidden is not None
        hidden.append(result.hidden)
    expert.close(sequence)
    return torch.cat(hidden)


def test_the_thinker_gives_the_hidden_states_of_the_reply(tiny: Reference) -> None:
    thinker = _cached(load_thinker, tiny.folder)
    for name in ("text", "sound"):
        crossed = tiny.record(name).crossed
        embeds = torch.cat([crossed["prompt_embeds"], crossed["embeds"]], 1)[0, 1:]  # without the pad in front
        expected = torch.cat([crossed["prompt_hidden"], crossed["hidden"]], 1)[0, 1:]
        own = _follow(thinker, embeds, None, [5, len(embeds) - 5])
        torch.testing.assert_close(own, expected, **CLOSE)


def test_places_of_the_prompt_are_kept_over_chunks_and_go_on_behind_the_largest(tiny: Reference) -> None:
    thinker = _cached(load_thinker, tiny.folder)
    crossed = tiny.record("picture").crossed
    embeds = torch.cat([crossed["prompt_embeds"], crossed["embeds"]], 1)[0, 1:]
    expected = torch.cat([crossed["prompt_hidden"], crossed["hidden"]], 1)[0, 1:]
    text, rows, columns = torch.arange(4), torch.arange(2), torch.arange(3)
    square = [torch.full((6,), 4), 4 + rows.repeat_interleave(3), 4 + columns.repeat(2)]
    places = torch.stack([torch.cat([text, axis, torch.arange(7, 12)]) for axis in square], dim=1)
    own = _follow(thinker, embeds, places, [6, 9, *[1] * (len(embeds) - 15)])
    torch.testing.assert_close(own, expected, **CLOSE)


def test_the_talker_chooses_the_codes_of_its_inputs(tiny: Reference) -> None:
    talker = _cached(load_talker, tiny.folder)
    recording = tiny.record("text")
    prompt = recording.crossed["talker.inputs_embeds"][0, 1:].clone()
    reply = recording.crossed["talker.thinker_reply_part"][0]
    prompt[-2:] += talker.embed(torch.tensor([reference.CODEC_PAD, reference.CODEC_BOS]))
    seen = [reference.CODEC_MASK] * (len(prompt) - 2) + [reference.CODEC_PAD, reference.CODEC_BOS]
    sequence = talker.open({}, max_positions=len(prompt) + 40)
    embeds, codes = prompt, []
    while len(codes) < len(recording.codes[0]):
        (result,) = talker.step([TokenRows(sequence=sequence, embeds=embeds)])
        logits = result.logits.clone()
        known = torch.tensor(seen + codes)
        logits[known] = torch.where(logits[known] < 0, logits[known] * 1.05, logits[known] / 1.05)
        logits[reference.CODEC_BOS] = -torch.inf
        codes.append(int(logits.argmax()))
        row = reply[min(len(codes) - 1, len(reply) - 1)]
        embeds = talker.embed(torch.tensor(codes[-1:])) + row
    assert codes == recording.codes[0]


def test_a_missing_tensor_another_architecture_and_a_broken_voice_file_say_so(tiny: Reference, tmp_path: Path) -> None:
    folder = tmp_path / "model"
    shutil.copytree(tiny.folder, folder)
    config = (folder / "config.json").read_text(encoding="utf-8")
    (folder / "config.json").write_text(config.replace('"depth": 2', '"depth": 3'), encoding="utf-8")
    with pytest.raises(CheckpointError, match=r"tensor thinker\.visual\.blocks\.2\..* is missing"):
        _plain(load_vision, folder)
    (folder / "config.json").write_text(config.replace('"qwen2_5_omni"', '"qwen3_omni_moe"'), encoding="utf-8")
    with pytest.raises(CheckpointError, match=r"model_type is 'qwen3_omni_moe'"):
        _plain(load_dit, folder)
    (folder / "spk_dict.pt").write_bytes(b"\x80\x04cos\nsystem\n.")
    with pytest.raises(CheckpointError, match=r"spk_dict\.pt: cannot be read as a list of voices"):
        load_voices(folder, device=CPU)
