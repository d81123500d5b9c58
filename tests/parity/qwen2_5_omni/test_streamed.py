"""Speech that starts before the talker ends: exact while one window holds the clip, and within the card's tolerance."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

import omniflow
from tests.parity.qwen2_5_omni import reference
from tests.parity.qwen2_5_omni.running import SPECS, outputs_of

pytestmark = pytest.mark.hf
WINDOW, BLOCK = 36, 24  # codes that one window adds; frames of a block in the published checkpoints


@pytest.fixture(scope="module", params=(0, 3), ids="seed{}".format)
def folder(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    torch.set_num_threads(1)
    path = tmp_path_factory.mktemp("streamed")
    reference.build(path, request.param, block=BLOCK)
    reference.add_tokenizer(path)
    return path


def _engine(folder: Path, program: str, *, trace: bool = False) -> omniflow.Engine:
    return omniflow.load(omniflow.compile(SPECS / program, params={"weights": str(folder)}), trace=trace)


def _wishes(codes: int) -> Mapping[str, Any]:
    """A reply of 12 tokens and of exactly that many codes."""
    never = [reference.VOCABULARY - 1]
    return {
        "think.max_tokens": 12,
        "think.stop": never,
        "talk/speak.max_tokens": codes,
        "talk/speak.stop": [],
        "talk/speak.temperature": 0.9,
    }


def _audio(running: omniflow.Engine, codes: int) -> Tensor:
    result = running.run({"prompt": "w9 w10"}, seed=1, rng="torch", params=_wishes(codes))
    audio: Tensor = outputs_of(result)["audio"]
    return audio


def test_a_clip_of_one_window_is_the_whole_clip(folder: Path) -> None:
    whole, streamed = _engine(folder, "speech.program.yaml"), _engine(folder, "stream.program.yaml")
    for codes in (1, 20, WINDOW):
        torch.testing.assert_close(_audio(streamed, codes), _audio(whole, codes), atol=1e-5, rtol=0)


def test_longer_clips_differ_by_no_more_than_the_card_declares(folder: Path) -> None:
    whole, streamed = _engine(folder, "speech.program.yaml"), _engine(folder, "stream.program.yaml")
    tolerance = streamed.schedule.parity["tolerance"]
    for codes in (WINDOW + 1, 60, 131):
        own, expected = _audio(streamed, codes), _audio(whole, codes)
        assert own.shape == expected.shape
        difference = float((own - expected).abs().max())
        assert 1e-5 < difference <= tolerance  # not exact: who needs that takes the whole clip


def test_sound_leaves_before_the_talker_ends(folder: Path) -> None:
    running = _engine(folder, "stream.program.yaml", trace=True)
    outputs_of(running.run({"prompt": "w9 w10"}, seed=1, params=_wishes(131)))
    assert running.trace is not None
    order = [unit.node for unit in running.trace.units if unit.node in ("talk/speak", "sound/wave")]
    before = order[: order.index("sound/wave")].count("talk/speak")
    assert before <= 1 + WINDOW + 12 + 4  # the prompt, a window with the context behind it, and what ran meanwhile


def test_streamed_requests_together_equal_each_alone(folder: Path) -> None:
    running = _engine(folder, "stream.program.yaml")
    prompts = ("w9 w10", "w50", "w120 w7 w33")
    alone = [outputs_of(running.run({"prompt": p}, seed=i, params=_wishes(50 + 9 * i))) for i, p in enumerate(prompts)]
    asked = [running.submit({"prompt": p}, seed=i, params=_wishes(50 + 9 * i)) for i, p in enumerate(prompts)]
    while not running.is_idle:
        running.step()
    for request, expected in zip(asked, alone, strict=True):
        result = running.result(request)
        assert result is not None
        own = outputs_of(result)
        assert own["text"] == expected["text"]
        torch.testing.assert_close(own["audio"], expected["audio"], atol=1e-5, rtol=0)
    assert running.live == 0
