"""The program that takes a prompt as people write it: chat template, text while it is written, speech."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
import torch

import omniflow
from tests.parity.qwen2_5_omni import reference
from tests.parity.qwen2_5_omni.conftest import Reference
from tests.parity.qwen2_5_omni.reference import Case
from tests.parity.qwen2_5_omni.running import SPECS, outputs_of

pytestmark = pytest.mark.hf
NEVER = reference.VOCABULARY - 1  # an id that ends no reply here
GREEDY = {
    "think.max_tokens": 12,
    "think.stop": [NEVER],
    "talk/speak.temperature": 0.0,
    "talk/speak.max_tokens": 12,
}


@pytest.fixture(scope="module")
def folder(tiny: Reference, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The checkpoint with a tokenizer of one id per word."""
    path = tmp_path_factory.mktemp("speaking") / "model"
    shutil.copytree(tiny.folder, path)
    reference.add_tokenizer(path)
    return path


def test_a_prompt_is_answered_in_text_and_speech_as_transformers_answers_its_tokens(
    tiny: Reference, folder: Path
) -> None:
    schedule = omniflow.compile(SPECS / "speech.program.yaml", params={"weights": str(folder)})
    running = omniflow.load(schedule)
    own = outputs_of(running.run({"prompt": "w9 w10 w11"}, seed=5, rng="torch", params=GREEDY))
    system = schedule.node("read/tokenize").attributes["system"]
    ids = (0, *[3] * len(system.split()), 1, 9, 10, 11, 2)  # what is no word of the tokenizer is its unknown one
    expected = reference.record(tiny.model, Case(prompts=(ids,), max_codes=12, eos=NEVER), seed=5)
    assert own["text"] == " ".join(reference.WORDS[i] for i in expected.text[0])
    torch.testing.assert_close(own["audio"], expected.waves[0], atol=1e-5, rtol=0)


def test_without_a_checkpoint_the_program_is_checked_and_running_it_says_what_it_needs() -> None:
    schedule = omniflow.compile(SPECS / "speech.program.yaml")
    assert schedule.node("talk/speak").attributes["suppress"] == [8293]
    with pytest.raises(omniflow.BindError, match=r"it needs the folder of a checkpoint: --set weights=FOLDER"):
        omniflow.load(schedule)


def test_a_checkpoint_without_a_fast_tokenizer_or_a_template_says_so(folder: Path, tmp_path: Path) -> None:
    path = tmp_path / "model"
    shutil.copytree(folder, path)
    (path / "chat_template.jinja").unlink()
    schedule = omniflow.compile(SPECS / "speech.program.yaml", outputs=["text"], params={"weights": str(path)})
    result = omniflow.load(schedule).run({"prompt": "w9"})
    assert result.error is not None
    assert "has no chat template" in result.error
    (path / "tokenizer.json").write_text(json.dumps({"nothing": 1}), encoding="utf-8")
    other = tmp_path / "other"
    shutil.copytree(path, other)
    schedule = omniflow.compile(SPECS / "speech.program.yaml", outputs=["text"], params={"weights": str(other)})
    with pytest.raises(omniflow.BindError, match=r"tokenizer\.json: cannot be read as a tokenizer"):
        omniflow.load(schedule)
