"""The specs against transformers, end to end: the same ids and the same sound, alone and among strangers."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
import torch

import omniflow
from tests.parity.qwen2_5_omni import reference
from tests.parity.qwen2_5_omni.conftest import Reference
from tests.parity.qwen2_5_omni.running import SPECS, engine, inputs, outputs_of, params

pytestmark = pytest.mark.hf
CASES = (*reference.cases(), "text_eos", "codes_eos")
CLOSE = 1e-5


@pytest.mark.parametrize("name", CASES)
def test_a_request_equals_transformers_in_ids_mel_and_sound(tiny: Reference, name: str) -> None:
    recording, case = tiny.record(name), tiny.case(name)
    own = outputs_of(engine(tiny.folder).run(inputs(case), seed=recording.seed, rng="torch", params=params(case)))
    assert own["tokens"].tolist() == recording.text[0]
    assert own["codes"].tolist() == recording.codes[0]
    torch.testing.assert_close(own["mel"], recording.crossed["mel.0"][0].T, atol=CLOSE, rtol=0)
    torch.testing.assert_close(own["audio"], recording.waves[0], atol=CLOSE, rtol=0)


def test_another_voice_speaks_as_it_does_in_transformers(tiny: Reference) -> None:
    recording, case = tiny.record("text", voice="Ethan"), tiny.case("text")
    asked = inputs(case, voice="Ethan")
    own = outputs_of(engine(tiny.folder).run(asked, seed=recording.seed, rng="torch", params=params(case)))
    assert own["codes"].tolist() == recording.codes[0]
    torch.testing.assert_close(own["audio"], recording.waves[0], atol=CLOSE, rtol=0)


def test_all_cases_at_once_equal_each_alone_and_transformers(tiny: Reference) -> None:
    """Nine requests share every batch; a row that transformers pads gives what it gives without padding here."""
    running, asked = engine(tiny.folder), {}
    for name in CASES:
        for row in range(len(tiny.case(name).prompts)):
            case, recording = tiny.case(name), tiny.record(name)
            request = running.submit(inputs(case, row), seed=recording.seed, rng="torch", params=params(case))
            asked[request] = (name, row)
    while not running.is_idle:
        running.step()
    for request, (name, row) in asked.items():
        result = running.result(request)
        assert result is not None
        own, recording = outputs_of(result), tiny.record(name)
        assert own["tokens"].tolist() == recording.text[row]
        assert own["codes"].tolist() == recording.codes[row]
        expected = (
            recording.waves[0] if row == 0 else tiny.speech(recording.codes[row], voice="Chelsie", seed=recording.seed)
        )
        torch.testing.assert_close(own["audio"], expected, atol=CLOSE, rtol=0)
    assert running.live == 0


def test_text_alone_loads_no_talker_and_gives_the_same_text(tiny: Reference) -> None:
    running = engine(tiny.folder, ("tokens",))
    assert {expert.name for expert in running.schedule.experts} == {"thinker", "ears", "eyes"}
    for name in ("text", "sound", "picture", "text_eos"):
        own = outputs_of(running.run(inputs(tiny.case(name)), params=params(tiny.case(name), with_speech=False)))
        assert own["tokens"].tolist() == tiny.record(name).text[0]


def test_the_talker_starts_with_the_first_row_of_the_reply(tiny: Reference) -> None:
    """Greedy: both language models run side by side, and what they say is what they say one after the other."""
    running, case, recording = engine(tiny.folder, trace=True), tiny.case("text"), tiny.record("text")
    assert running.trace is not None
    running.trace.units.clear()
    own = outputs_of(running.run(inputs(case), seed=recording.seed, params=params(case)))
    assert own["codes"].tolist() == recording.codes[0]
    order = [unit.node for unit in running.trace.units if unit.node in ("think", "talk/speak")]
    first = order.index("talk/speak")
    assert order[:first].count("think") == 2  # the prompt, and the one token whose row the talker starts with
    assert "think" in order[first:]


def test_a_reply_that_ends_at_once_is_spoken_as_its_end(tiny: Reference) -> None:
    """transformers fails on a reply without tokens; here the talker reads the end of text, then its pad."""
    case = tiny.case("text")
    asked = params(case) | {"think.stop": tiny.record("text").text[0][:1], "talk/speak.max_tokens": 5}
    own = outputs_of(engine(tiny.folder).run(inputs(case), params=asked))
    assert own["tokens"].tolist() == []
    assert len(own["audio"]) == 24 * len(own["codes"])


def test_a_voice_that_is_not_there_names_those_that_are(tiny: Reference) -> None:
    result = engine(tiny.folder).run(inputs(tiny.case("text"), voice="Nobody"), params=params(tiny.case("text")))
    assert result.error is not None
    assert "there is no voice 'Nobody'; this checkpoint has Chelsie, Ethan" in result.error


def test_a_prompt_without_room_for_its_sound_says_how_much_is_missing(tiny: Reference) -> None:
    asked = inputs(tiny.case("sound")) | {"tokens": torch.tensor([1, reference.AUDIO, 2])}
    result = engine(tiny.folder).run(asked, params=params(tiny.case("sound")))
    assert result.error is not None
    assert "the tokens have 1 places for 7 rows" in result.error


def test_shards_give_what_one_file_gives(tiny: Reference, tmp_path: Path) -> None:
    tiny.model.save_pretrained(tmp_path, max_shard_size="100KB")
    shutil.copy(tiny.folder / "spk_dict.pt", tmp_path)
    assert len(list(tmp_path.glob("model-*.safetensors"))) > 5
    case, recording = tiny.case("text"), tiny.record("text")
    own = outputs_of(engine(tmp_path).run(inputs(case), seed=recording.seed, rng="torch", params=params(case)))
    assert own["codes"].tolist() == recording.codes[0]
    torch.testing.assert_close(own["audio"], recording.waves[0], atol=CLOSE, rtol=0)


def test_a_lost_shard_is_one_line_before_anything_runs(tiny: Reference, tmp_path: Path) -> None:
    tiny.model.save_pretrained(tmp_path, max_shard_size="100KB")
    lost = sorted(tmp_path.glob("model-*.safetensors"))[2]
    lost.unlink()
    with pytest.raises(omniflow.BindError, match=f"shard {lost.name} is missing"):
        engine(tmp_path)


def test_language_models_and_towers_in_bfloat16_speak_and_say_nearly_the_same(tiny: Reference) -> None:
    settings = {"weights": str(tiny.folder), "dtype": "bfloat16"}
    running = omniflow.load(omniflow.compile(SPECS / "tensors.program.yaml", params=settings))
    for name in ("text", "sound", "picture"):
        case, recording = tiny.case(name), tiny.record(name)
        own = outputs_of(running.run(inputs(case), seed=recording.seed, rng="torch", params=params(case)))
        assert own["tokens"][0] == recording.text[0][0]
        assert own["audio"].dtype == torch.float32
        assert len(own["audio"]) == 24 * len(own["codes"])
