"""What published systems leave out at the hand-offs, said as edges that are missing, and what each of them costs."""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from torch import Tensor

import omniflow
from tests.parity.qwen2_5_omni import reference
from tests.parity.qwen2_5_omni.conftest import Reference
from tests.parity.qwen2_5_omni.running import SPECS, engine, inputs, outputs_of, params

pytestmark = pytest.mark.hf
WITHOUT_MARKS = (  # codec pad and codec bos are not added to the last two rows of the prompt
    ("  open:    {op: embed, with: talker}\n", ""),
    ("  prefill: {op: add_last}\n", ""),
    ("  - opening.tokens -> open.tokens\n  - rows.whole -> prefill.rows\n  - open.embeds -> prefill.values\n", ""),
    ("prefill.rows -> speak.prompt_embeds", "rows.whole -> speak.prompt_embeds"),
)
WITHOUT_PLACES = (("  - positions -> speak.positions\n", ""), ('  positions: "i64[P, 3]"\n', ""))
WITHOUT_EMBEDDINGS = (  # the talker reads hidden states alone
    ("  prompt:  {op: add}\n  reply:   {op: add}\n", ""),
    ("  - prompt_embeds -> prompt.a\n  - prompt_hidden -> prompt.b\n", ""),
    ("  - embeds ~> reply.a\n  - hidden ~> reply.b\n", ""),
    ("reply.sum ~> said.value", "hidden ~> said.value"),
    ("prompt.sum -> rows.parts", "prompt_hidden -> rows.parts"),
    ('  prompt_embeds: "?a[P, D]"  # what the thinker read, zero where sounds and pictures were\n', ""),
    ('  embeds: "?a[R, D]"         # what it wrote, a row per token that it read again\n', ""),
)


def _without(
    tiny: Reference, folder: Path, changes: Sequence[tuple[str, str]], unfed: Sequence[str]
) -> omniflow.Engine:
    """An engine for specs with edges left out; `unfed` are inputs of the graph that are gone with them."""
    shutil.copytree(SPECS, folder)
    graph, program = folder / "talk.graph.yaml", folder / "tensors.program.yaml"
    text = graph.read_text(encoding="utf-8")
    for before, after in changes:
        assert before in text, before
        text = text.replace(before, after)
    graph.write_text(text, encoding="utf-8")
    lines = program.read_text(encoding="utf-8").splitlines(keepends=True)
    kept = [line for line in lines if not any(f"> talk.{port}\n" in line for port in unfed)]
    if "prompt_embeds" in unfed:  # nothing reads the words alone any more
        kept = [line for line in kept if "own:" not in line and "own." not in line]
    program.write_text("".join(kept), encoding="utf-8")
    return omniflow.load(omniflow.compile(program, params={"weights": str(tiny.folder)}))


def _say(
    running: omniflow.Engine, tiny: Reference, name: str, extra: Mapping[str, Any] | None = None
) -> Mapping[str, Tensor]:
    case, seed = tiny.case(name), tiny.record(name).seed
    return outputs_of(running.run(inputs(case), seed=seed, rng="torch", params=params(case) | dict(extra or {})))


def test_unpadded_requests_lose_the_codec_marks_in_transformers_and_not_here(tiny: Reference, tmp_path: Path) -> None:
    case, recording = tiny.case("text"), tiny.record("text")
    unpadded = reference.record(tiny.model, case, seed=recording.seed, pad_one=False)
    assert unpadded.text == recording.text
    assert unpadded.codes != recording.codes
    own = _say(_without(tiny, tmp_path / "specs", WITHOUT_MARKS, ()), tiny, "text")
    assert own["codes"].tolist() == unpadded.codes[0]  # exactly what transformers leaves out
    assert _say(engine(tiny.folder), tiny, "text")["codes"].tolist() == recording.codes[0]


def test_unpadded_pictures_lose_their_places_in_transformers_as_well(tiny: Reference, tmp_path: Path) -> None:
    case, recording = tiny.case("picture"), tiny.record("picture")
    unpadded = reference.record(tiny.model, case, seed=recording.seed, pad_one=False)
    marked = _say(_without(tiny, tmp_path / "marks", WITHOUT_MARKS, ()), tiny, "picture")
    assert marked["codes"].tolist() != unpadded.codes[0]
    placed = _without(tiny, tmp_path / "places", (*WITHOUT_MARKS, *WITHOUT_PLACES), ("positions",))
    assert _say(placed, tiny, "picture")["codes"].tolist() == unpadded.codes[0]


def test_hidden_states_without_their_embeddings_say_something_else(tiny: Reference, tmp_path: Path) -> None:
    running = _without(tiny, tmp_path / "specs", WITHOUT_EMBEDDINGS, ("prompt_embeds", "embeds"))
    own, recording = _say(running, tiny, "text"), tiny.record("text")
    assert own["tokens"].tolist() == recording.text[0]
    assert _agreement(own["codes"].tolist(), recording.codes[0]) < 0.5


def test_a_mel_without_guidance_is_another_mel(tiny: Reference) -> None:
    expected = tiny.record("text").crossed["mel.0"][0].T
    own = _say(engine(tiny.folder), tiny, "text", {"sound/mel.guidance": 0.0})["mel"]
    assert own.shape == expected.shape
    assert float((own - expected).abs().max()) > 0.01  # a thousand times what parity allows


def test_a_penalty_that_forgets_the_prompt_says_something_else(tiny: Reference, tmp_path: Path) -> None:
    """The mask ids of the prompt count as said; the tiny talkers show it at a stronger penalty than the default."""
    changes = (
        ("  masks:   {op: repeat_id, id: $talker.codec_mask}\n", "  masks:   {op: repeat_id, id: $talker.codec_bos}\n"),
    )
    forgetful = _without(tiny, tmp_path / "specs", changes, ())
    answers = [
        [
            _say(running, tiny, name, {"talk/speak.repetition_penalty": 3.0})["codes"].tolist()
            for name in ("text", "text_eos", "sound", "picture")
        ]
        for running in (engine(tiny.folder), forgetful)
    ]
    assert answers[0] != answers[1]


def _agreement(own: list[int], expected: list[int]) -> float:
    """Share of equal codes, place by place."""
    longest = max(len(own), len(expected))
    return sum(a == b for a, b in zip(own, expected, strict=False)) / longest
