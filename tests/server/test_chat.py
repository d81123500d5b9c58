from __future__ import annotations

import base64
import io
from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest
import soundfile
import torch

import omniflow
from omniflow.experts.qwen2_5_omni_voices import Voice, Voices
from tests.runtime.program import PROMPTS, alone, engine
from tests.schedules import edge, expert, node, schedule
from tests.server.served import Served, serving

CHAT = "/v1/chat/completions"


def user(text: object) -> list[dict[str, object]]:
    return [{"role": "user", "content": text}]


def test_a_chat_is_answered_in_text_without_computing_speech(served: Served) -> None:
    answer = served.post(CHAT, {"model": "null-speech.speech", "messages": user(PROMPTS[0])})
    assert answer.status == 200
    choice = answer.json["choices"][0]
    assert choice["message"] == {"role": "assistant", "content": alone(PROMPTS[0])[0]}
    assert choice["finish_reason"] == "length"  # the card's own bound
    usage = answer.json["usage"]
    assert usage["total_tokens"] == usage["prompt_tokens"] + usage["completion_tokens"]
    assert usage["prompt_tokens"] > 0
    assert 'node="wave"' not in served.get("/metrics").body.decode()


def test_a_chat_is_answered_in_speech_where_it_is_asked_for(served: Served) -> None:
    answer = served.post(CHAT, {"messages": user(PROMPTS[1]), "modalities": ["text", "audio"]})
    text, audio = alone(PROMPTS[1])
    message = answer.json["choices"][0]["message"]
    assert message["content"] == message["audio"]["transcript"] == text
    samples, rate = soundfile.read(io.BytesIO(base64.b64decode(message["audio"]["data"])), dtype="float32")
    assert rate == 24_000
    assert np.abs(samples - audio.clamp(-1, 1).numpy()).max() <= 1 / 32767


def test_chunks_of_a_chat_make_the_same_text_and_sound(served: Served) -> None:
    answer = served.post(CHAT, {"messages": user(PROMPTS[1]), "modalities": ["text", "audio"], "stream": True})
    text, audio = alone(PROMPTS[1])
    chunks = [data for _, data in answer.events]
    assert chunks[-1] == "[DONE]"
    deltas = [chunk["choices"][0]["delta"] for chunk in chunks[:-1]]
    assert deltas[0]["role"] == "assistant"
    assert "".join(delta.get("content", "") for delta in deltas) == text
    sound = b"".join(base64.b64decode(delta["audio"]["data"]) for delta in deltas if "audio" in delta)
    assert np.abs(np.frombuffer(sound, "<i2") / 32767 - audio.clamp(-1, 1).numpy()).max() <= 1 / 32767
    assert chunks[-2]["choices"][0]["finish_reason"] == "stop"
    assert chunks[-2]["usage"]["completion_tokens"] > 0


def test_sampling_goes_to_the_loop_that_writes_the_text(served: Served) -> None:
    body = {"messages": user(PROMPTS[2]), "temperature": 0.9, "top_p": 0.8, "max_tokens": 5, "seed": 4}
    answer = served.post(CHAT, body)
    params = {"think.temperature": 0.9, "think.top_p": 0.8, "think.max_tokens": 5}
    want = engine().run({"prompt": PROMPTS[2]}, params=params, seed=4)
    assert answer.json["choices"][0]["message"]["content"] == want.outputs["text"]
    assert answer.json["usage"]["completion_tokens"] == 5
    assert answer.json["choices"][0]["finish_reason"] == "length"


@pytest.mark.parametrize(
    ("body", "status", "words"),
    [
        ({"messages": []}, 422, "messages: it has none"),
        ({"messages": user("x"), "model": "gpt"}, 404, "this is null-speech.speech"),
        ({"messages": user("x"), "stop": ["."]}, 422, "stop"),
        ({"messages": user("x"), "n": 2}, 422, "n: "),
        ({"messages": [*user("x"), {"role": "assistant", "content": "y"}]}, 422, "one user turn"),
        ({"messages": [{"role": "system", "content": "y"}]}, 422, "one user turn"),
        ({"messages": user("x"), "audio": {"voice": "Bea"}}, 422, "one voice"),
        ({"messages": user("x"), "audio": {"format": "pcm16"}}, 422, "comes as wav here"),
        ({"messages": user("x"), "audio": {"format": "wav"}, "stream": True}, 422, "comes as pcm16 here"),
        ({"messages": user([{"type": "image_url", "image_url": {"url": "http://x/y.png"}}])}, 422, "takes text"),
        ({"messages": user("x"), "temperature": -1}, 422, "temperature"),
    ],
)
def test_what_a_chat_cannot_have_is_named(served: Served, body: dict[str, object], status: int, words: str) -> None:
    answer = served.post(CHAT, body)
    assert answer.status == status
    assert words in answer.error


@pytest.fixture(scope="module")
def voices() -> Iterator[Served]:
    """A program whose text is the name of its voice's token."""
    token = torch.tensor([70])
    known = {name: Voice(token=token, vector=torch.zeros(1), reference=torch.zeros(1, 1)) for name in ("Ada", "Bea")}
    program = schedule(
        inputs={"prompt": "text", "voice": "text"},
        outputs={"text": ("say.text", "text")},
        nodes=[
            node("voice", "op.voice_id", expert="voices", inputs={"name": "text"}, outputs={"token": "tokens[1]"}),
            node("say", "op.detokenize", expert="tokenizer", inputs={"tokens": "tokens[1]"}, outputs={"text": "text"}),
        ],
        edges=[edge("voice -> voice.name", "text"), edge("voice.token ~> say.tokens", "tokens[1]")],
        experts=[expert("voices", "given"), expert("tokenizer", "null.tokenizer")],
    )
    prompt, voice = program.inputs
    program = replace(program, inputs=(prompt, replace(voice, required=False, default="Ada")))
    with serving(omniflow.load(program, experts={"voices": Voices(known)})) as found:
        yield found


@pytest.mark.parametrize("more", [{}, {"stream": True}])
def test_an_unknown_voice_is_refused_and_the_known_ones_are_named(voices: Served, more: dict[str, object]) -> None:
    assert voices.post(CHAT, {"messages": user("x"), "audio": {"voice": "Bea"}, **more}).status == 200
    for path, body in (
        (CHAT, {"messages": user("x"), "audio": {"voice": "Bob"}, **more}),
        ("/v1/requests", {"inputs": {"prompt": "x", "voice": "Bob"}, **more}),
    ):
        answer = voices.post(path, body)
        assert answer.status == 422
        assert "node voice: unit 0: there is no voice 'Bob'; this checkpoint has Ada, Bea" in answer.error


def test_the_model_is_listed(served: Served) -> None:
    assert [model["id"] for model in served.get("/v1/models").json["data"]] == ["null-speech.speech"]
