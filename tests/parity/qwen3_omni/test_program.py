"""The specs against transformers, end to end: the same ids and the same sound, alone and among strangers."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch import Tensor

import omniflow
from omniflow import Limits
from omniflow.roles import DecoderRows
from tests.parity.qwen3_omni import reference
from tests.parity.qwen3_omni.conftest import SEEDS, Reference
from tests.parity.qwen3_omni.reference import GROUPS, HOP, LOST
from tests.parity.qwen3_omni.running import SPECS, engine, inputs, outputs_of, params

pytestmark = pytest.mark.hf
CASES = (*reference.cases(), "text_eos")
CLOSE = {"atol": 1e-5, "rtol": 0}


def _sound(tiny: Reference, codes: list[list[int]]) -> Tensor:
    """transformers' own decoding of a row's frames, in one piece."""
    with torch.no_grad():
        wave: Tensor = tiny.model.code2wav(torch.tensor(codes).T[None]).reshape(-1)
    return wave


@pytest.mark.parametrize("name", CASES)
def test_a_request_equals_transformers_in_ids_frames_and_sound(tiny: Reference, name: str) -> None:
    recording, case = tiny.record(name), tiny.case(name)
    own = outputs_of(engine(tiny.folder).run(inputs(case), seed=recording.seed, rng="torch", params=params(case)))
    assert own["tokens"].tolist() == recording.text[0]
    assert own["codes"].tolist() == recording.codes[0]
    torch.testing.assert_close(own["audio"], recording.waves[0], **CLOSE)


def test_some_case_stops_and_some_reaches_its_bound(references: Callable[[int], Reference]) -> None:
    lengths = {len(references(seed).record(name).codes[0]) for seed in SEEDS for name in CASES}
    assert min(lengths) < 10
    assert max(lengths) == 20


def test_another_voice_speaks_as_it_does_in_transformers(tiny: Reference) -> None:
    recording, case = tiny.record("text", voice="Chelsie"), tiny.case("text")
    own = outputs_of(engine(tiny.folder).run(inputs(case, voice="chelsie"), params=params(case)))
    assert own["codes"].tolist() == recording.codes[0]
    torch.testing.assert_close(own["audio"], recording.waves[0], **CLOSE)


@pytest.mark.parametrize("limits", [Limits(), Limits(width=3, step_tokens=5, min_prefill=2)], ids=["wide", "narrow"])
def test_all_cases_at_once_equal_each_alone_and_transformers(tiny: Reference, limits: Limits) -> None:
    """Nine requests share every batch; a row that transformers pads gives what it gives without padding here."""
    running, asked = omniflow.load(engine(tiny.folder).schedule, limits=limits), {}
    for name in CASES:
        for row in range(len(tiny.case(name).prompts)):
            case, recording = tiny.case(name), tiny.record(name)
            rng = "torch" if case.sample_codes else "derived"
            request = running.submit(inputs(case, row), seed=recording.seed, rng=rng, params=params(case))
            asked[request] = (name, row)
    while not running.is_idle:
        running.step()
    for request, (name, row) in asked.items():
        own, recording = outputs_of(running.result(request)), tiny.record(name)
        assert own["tokens"].tolist() == recording.text[row]
        assert own["codes"].tolist() == recording.codes[row]
        torch.testing.assert_close(own["audio"], _sound(tiny, recording.codes[row]), **CLOSE)
    assert running.live == 0
    running.bound.pools.check()


def test_steps_of_the_code_predictor_batch_across_requests(talkative: Reference) -> None:
    running = omniflow.load(engine(talkative.folder).schedule, trace=True)
    case = talkative.case("turns")
    for _ in range(6):
        running.submit(inputs(case), params=params(case))
    while not running.is_idle:
        running.step()
    assert running.trace is not None
    widths = [unit.width for unit in running.trace.units if unit.node == "talk/speak"]
    assert sum(width == 6 for width in widths) > 0.7 * len(widths)


def test_drawn_frames_do_not_depend_on_who_else_runs(tiny: Reference) -> None:
    case = replace(tiny.case("text"), sample_text=True, sample_codes=True)
    running = engine(tiny.folder)
    alone = [outputs_of(running.run(inputs(case), seed=seed, params=params(case))) for seed in range(4)]
    ids = [running.submit(inputs(case), seed=seed, params=params(case)) for seed in range(4)]
    while not running.is_idle:
        running.step()
    together = [outputs_of(running.result(request)) for request in ids]
    assert [own["codes"].tolist() for own in together] == [own["codes"].tolist() for own in alone]
    assert len({str(own["codes"].tolist()) for own in alone}) == 4


def test_text_alone_loads_no_talker_and_gives_the_same_text(tiny: Reference) -> None:
    running = engine(tiny.folder, ("tokens",))
    assert {expert.name for expert in running.schedule.experts} == {"thinker", "ears", "eyes"}
    for name in ("text", "sound", "picture", "text_eos"):
        own = outputs_of(running.run(inputs(tiny.case(name)), params=params(tiny.case(name), with_speech=False)))
        assert own["tokens"].tolist() == tiny.record(name).text[0]


def test_the_talker_starts_with_the_first_word_and_the_vocoder_with_the_first_frames(talkative: Reference) -> None:
    running = omniflow.load(engine(talkative.folder).schedule, trace=True)
    case = replace(talkative.case("turns"), max_text=40)
    outputs_of(running.run(inputs(case), params=params(case)))
    assert running.trace is not None
    order = [unit.node for unit in running.trace.units]
    assert order[: order.index("talk/speak")].count("think") == 2  # the prompt, and the token that is spoken first
    assert order.index("talk/wave") < max(i for i, node in enumerate(order) if node == "talk/speak")
    assert "think" in order[order.index("talk/speak") :]


@pytest.mark.parametrize("cut", ["first_chunk: 1, chunk: 1", "first_chunk: 2, chunk: 7", "chunk: 300"])
def test_sound_in_chunks_is_the_whole_sound_sample_for_sample(tiny: Reference, tmp_path: Path, cut: str) -> None:
    for path in SPECS.glob("*.yaml"):
        text = path.read_text(encoding="utf-8").replace("first_chunk: 4, chunk: 25", cut)
        (tmp_path / path.name).write_text(text, encoding="utf-8")
    schedule = omniflow.compile(tmp_path / "tensors.program.yaml", params={"weights": str(tiny.folder)})
    pieces: list[Tensor] = []
    case, recording = tiny.case("turns"), tiny.record("turns")
    own = outputs_of(
        omniflow.load(schedule).run(
            inputs(case),
            params=params(case),
            listener=lambda piece: pieces.append(piece.data) if piece.output == "audio" else None,
        )
    )
    assert torch.equal(torch.cat(pieces), own["audio"])
    assert len(own["audio"]) == HOP * len(own["codes"]) - LOST
    torch.testing.assert_close(own["audio"], recording.waves[0], **CLOSE)


def test_chunks_without_memory_lose_samples_at_every_border_and_ours_do_not(tiny: Reference) -> None:
    """What three published systems, transformers' own `chunked_decode` among them, do."""
    codes = torch.randint(0, reference.CODES, (1, GROUPS, 60), generator=torch.Generator().manual_seed(1))
    with torch.no_grad():
        chunked = tiny.model.code2wav.chunked_decode(codes, chunk_size=20, left_context_size=15).reshape(-1)
    assert len(chunked) == HOP * 60 - 3 * LOST
    vocoder = engine(tiny.folder).bound.experts["vocoder"]
    state, pieces = vocoder.open(generator=torch.Generator()), []
    for part in codes[0].T.split(20):
        row = DecoderRows(state=state, frames={"codes": part}, left=0, new=20, right=0, is_last=False)
        pieces += vocoder.decode([row])
    assert len(torch.cat(pieces)) == HOP * 60 - LOST
    torch.testing.assert_close(torch.cat(pieces), _sound(tiny, codes[0].T.tolist()), **CLOSE)


def test_transformers_forgets_the_penalty_of_padded_rows_and_here_they_equal_the_row_alone(tiny: Reference) -> None:
    padded = replace(tiny.case("padded_batch"), penalty=1.6)
    alone = replace(padded, prompts=padded.prompts[1:])
    theirs, right = tiny.run(padded).codes[1], tiny.run(alone).codes[0]
    running = engine(tiny.folder)
    ids = [running.submit(inputs(padded, row), params=params(padded)) for row in (0, 1)]
    while not running.is_idle:
        running.step()
    own = [outputs_of(running.result(request))["codes"].tolist() for request in ids]
    assert own[1] == right
    assert own[0] == tiny.run(padded).codes[0]
    if tiny.seed == 0:
        assert theirs != right


def test_a_reply_that_ends_at_once_is_spoken_as_its_end(tiny: Reference) -> None:
    """transformers fails on a reply without tokens; here the talker reads the end of speech, then its pad."""
    case = tiny.case("text")
    asked = params(case) | {"think.stop": tiny.record("text").text[0][:1], "talk/speak.max_tokens": 5}
    own = outputs_of(engine(tiny.folder).run(inputs(case), params=asked))
    assert own["tokens"].tolist() == []
    assert len(own["audio"]) == max(HOP * len(own["codes"]) - LOST, 0)


def test_a_voice_that_is_not_there_names_those_that_are(tiny: Reference) -> None:
    result = engine(tiny.folder).run(inputs(tiny.case("text"), voice="Nobody"), params=params(tiny.case("text")))
    assert result.error is not None
    assert "there is no voice 'Nobody'; this checkpoint has chelsie, ethan" in result.error


def test_a_prompt_without_an_open_turn_says_so(tiny: Reference) -> None:
    asked = inputs(tiny.case("text")) | {"tokens": torch.tensor([reference.TURN, reference.USER, 5])}
    result = engine(tiny.folder).run(asked, params=params(tiny.case("text")))
    assert result.error is not None
    assert f"there is no turn of role {reference.ASSISTANT}" in result.error
    assert "talk.graph.yaml" in result.error


def test_a_prompt_is_answered_from_letters_to_sound(tiny: Reference, tmp_path: Path) -> None:
    folder = tmp_path / "model"
    shutil.copytree(tiny.folder, folder)
    tokenizer = reference.add_tokenizer(folder)
    case = replace(tiny.case("text"), prompts=(_chat(3, 14, 15, 92, 65),))
    schedule = omniflow.compile(SPECS / "speech.program.yaml", params={"weights": str(folder)})
    own = outputs_of(omniflow.load(schedule).run({"prompt": "w3 w14 w15 w92 w65"}, params=params(case)))
    recording = tiny.run(case)
    assert own["text"] == tokenizer.decode(recording.text[0], skip_special_tokens=True)
    torch.testing.assert_close(own["audio"], recording.waves[0], **CLOSE)


def _chat(*body: int) -> tuple[int, ...]:
    r = reference
    return (r.TURN, r.USER, r.LINE, *body, r.TURN_END, r.LINE, r.TURN, r.ASSISTANT, r.LINE)
