"""SmolLM2 in a conversation: its turns are the ids of the whole chat, and what was said before is read once."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

import omniflow

PROGRAM = Path(__file__).parents[3] / "specs" / "smol_speech" / "speech.program.yaml"


@pytest.mark.heavy
@pytest.mark.weights
def test_a_conversation_with_smollm2_is_the_whole_chat_and_is_read_once() -> None:
    running = omniflow.load(omniflow.compile(PROGRAM, outputs=["text"]))
    session, chat = running.session(), []
    for question in ("My name is Ada. Say hello.", "What is my name?"):
        chat.append({"role": "user", "content": question})
        result = running.run({"prompt": question}, session=session, params={"think.max_tokens": 24})
        assert result.state == "done", result.error
        chat.append({"role": "assistant", "content": result.outputs["text"]})
    remembered = running.lobby.sessions.get(session).memories["think"].value
    whole = running.bound.experts["tokenizer"].encode_chat(chat[:-1])
    assert torch.equal(remembered[: len(whole)], torch.tensor(whole))
    assert result.record["cached_tokens"] > len(whole) // 2
