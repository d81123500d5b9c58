from __future__ import annotations

import base64
import http.client
import io
import json
import time
from collections.abc import Callable, Iterator, Sequence
from threading import Event
from typing import Any

import numpy as np
import pytest
import soundfile

import omniflow
from omniflow import Engine, Schedule
from omniflow.loops.base import Unit
from tests.runtime.program import PROMPTS, alone, engine, speech
from tests.server.programs import RATE, speaking
from tests.server.served import Answer, Served, serving

SPEECH = "/v1/audio/speech"


@pytest.fixture(scope="module")
def schedule(tmp_path_factory: pytest.TempPathFactory) -> Schedule:
    return speaking(tmp_path_factory.mktemp("speaking"))


@pytest.fixture(scope="module")
def fields(schedule: Schedule) -> Iterator[Served]:
    with serving(omniflow.load(schedule)) as found:
        yield found


def spoken(answer: Answer) -> np.ndarray:
    """Samples of an answer in PCM, in [-1, 1]."""
    assert answer.status == 200, answer.body
    return np.frombuffer(answer.body, "<i2") / 32767


def assert_close(samples: np.ndarray, wanted: Any) -> None:
    assert len(samples) == len(wanted) > 0
    assert np.abs(samples - wanted.clamp(-1, 1).numpy()).max() <= 1 / 32767


def ask(served: Served, body: dict[str, Any]) -> http.client.HTTPConnection:
    connection = served.connect()
    connection.request("POST", SPEECH, json.dumps(body), {"content-type": "application/json"})
    return connection


def slowed(running: Engine, is_slow: Callable[[Sequence[Unit]], bool]) -> Engine:
    """The engine, with batches that take 20 ms longer: what clients do meanwhile, it hears in time."""
    run = running.executor.run

    def slowly(units: Sequence[Unit]) -> Any:
        if is_slow(units):
            time.sleep(0.02)
        return run(units)

    running.executor.run = slowly  # type: ignore[method-assign]
    return running


def test_a_text_is_answered_with_a_sound_file(served: Served) -> None:
    answer = served.post(SPEECH, {"model": "null-speech.speech", "input": PROMPTS[0], "voice": "default"})
    assert answer.headers["content-type"] == "audio/wav"
    samples, rate = soundfile.read(io.BytesIO(answer.body), dtype="float32")
    assert rate == 24_000
    assert_close(samples, alone(PROMPTS[0])[1])


def test_pcm_is_the_same_sound_and_its_type_tells_the_rate(served: Served) -> None:
    answer = served.post(SPEECH, {"input": PROMPTS[1], "response_format": "pcm"})
    assert answer.headers["content-type"] == "audio/pcm; rate=24000; channels=1"
    assert "content-length" not in answer.headers
    assert_close(spoken(answer), alone(PROMPTS[1])[1])


def test_events_bring_the_same_sound_in_pieces_and_then_say_that_it_is_done(served: Served) -> None:
    answer = served.post(SPEECH, {"input": PROMPTS[1], "stream_format": "sse"})
    *deltas, last = answer.events
    assert last == ("speech.audio.done", {"type": "speech.audio.done"})
    assert len(deltas) > 1
    told = {(name, data["type"], data["rate_hz"], data["channels"]) for name, data in deltas}
    assert told == {("speech.audio.delta", "speech.audio.delta", 24_000, 1)}
    sound = b"".join(base64.b64decode(data["audio"]) for _, data in deltas)
    assert_close(np.frombuffer(sound, "<i2") / 32767, alone(PROMPTS[1])[1])


def test_pcm_begins_to_arrive_before_the_request_has_ended() -> None:
    heard = Event()
    running = slowed(engine(), lambda units: units[0].kind == "audio_chunk" and not heard.is_set())
    with serving(running) as served:
        connection = ask(served, {"input": PROMPTS[2], "response_format": "pcm"})
        response = connection.getresponse()
        first = response.read(100)
        assert running.running
        heard.set()
        assert_close(np.frombuffer(first + response.read(), "<i2") / 32767, alone(PROMPTS[2])[1])
        connection.close()


def test_only_what_the_sound_needs_is_run(schedule: Schedule) -> None:
    with serving(omniflow.load(schedule)) as served:
        assert served.post(SPEECH, {"input": "a tree"}).status == 200
        assert 'node="say"' not in served.get("/metrics").body.decode()
        assert served.post("/v1/requests", {"inputs": {"text": "a tree"}}).status == 200
        assert 'node="say"' in served.get("/metrics").body.decode()


@pytest.mark.parametrize(
    ("given", "inputs"),
    [
        ({}, {}),
        ({"voice": "default", "speed": 1}, {}),
        ({"voice": "Bea"}, {"speaker": "Bea"}),
        ({"speed": 1.5}, {"speed": 1.5}),
        ({"instructions": "in a whisper"}, {"instructions": "in a whisper"}),
    ],
)
def test_fields_go_to_the_inputs_of_their_name(
    fields: Served, schedule: Schedule, given: dict[str, Any], inputs: dict[str, Any]
) -> None:
    answer = fields.post(SPEECH, {"input": "a tree", "response_format": "pcm", "seed": 3, **given})
    assert answer.headers["content-type"] == f"audio/pcm; rate={RATE}; channels=1"
    want = omniflow.load(schedule).run({"text": "a tree", **inputs}, seed=3).outputs["audio"]
    assert_close(spoken(answer), want)
    if inputs:
        plain = omniflow.load(schedule).run({"text": "a tree"}, seed=3).outputs["audio"]
        assert plain.shape != want.shape or not bool((plain == want).all())


@pytest.mark.parametrize(
    ("body", "status", "words"),
    [
        ({}, 422, "input"),
        ({"input": "x", "model": "tts-1"}, 404, "there is no model tts-1; this is null-speech.speech"),
        ({"input": "x", "voice": "alloy"}, 422, "voice: this program has one voice"),
        ({"input": "x", "response_format": "mp3"}, 422, "response_format: input should be 'wav' or 'pcm'"),
        ({"input": "x", "response_format": "wav", "stream_format": "sse"}, 422, "response_format: events carry pcm"),
        ({"input": "x", "stream_format": "lines"}, 422, "stream_format"),
        ({"input": "x", "speed": 1.5}, 422, "speed: this program has one speed"),
        ({"input": "x", "speed": 0}, 422, "speed"),
        ({"input": "x", "instructions": "loudly"}, 422, "instructions: this program has no place"),
        ({"input": "x", "seed": -1}, 422, "seed"),
        ({"input": "x", "pitch": 2}, 422, "pitch: "),
    ],
)
def test_what_a_speech_cannot_have_is_named(served: Served, body: dict[str, object], status: int, words: str) -> None:
    answer = served.post(SPEECH, body)
    assert answer.status == status
    assert words in answer.error


def test_a_speed_outside_what_the_program_takes_is_refused(fields: Served) -> None:
    answer = fields.post(SPEECH, {"input": "x", "speed": 3})
    assert answer.status == 422
    assert "speed" in answer.error


@pytest.mark.parametrize("more", [{}, {"response_format": "pcm"}, {"stream_format": "sse"}])
def test_a_request_that_fails_before_its_first_sound_has_a_status(more: dict[str, object]) -> None:
    faults = [{"at": "tokenize", "kind": "raise"}]
    with serving(omniflow.load(speech(), profile="test", faults=faults)) as served:
        answer = served.post(SPEECH, {"input": PROMPTS[0], **more})
        if "stream_format" in more:
            assert answer.events[-1][0] == "error"
            assert "node tokenize" in answer.events[-1][1]["error"]["message"]
        else:
            assert answer.status == 500
            assert "node tokenize" in answer.error


def test_pcm_that_breaks_off_does_not_look_whole_and_the_log_says_why(caplog: pytest.LogCaptureFixture) -> None:
    faults = [{"at": "wave", "kind": "raise", "number": 2}]
    with serving(omniflow.load(speech(), profile="test", faults=faults)) as served:
        connection = ask(served, {"input": PROMPTS[2], "response_format": "pcm"})
        response = connection.getresponse()
        assert response.status == 200
        with pytest.raises(http.client.IncompleteRead):
            response.read()
        connection.close()
        served.wait_until_idle()
    (line,) = [record.getMessage() for record in caplog.records if record.name == "omniflow.server"]
    assert "a sound was cut short" in line
    assert "node wave: unit 2" in line


@pytest.mark.parametrize("more", [{}, {"response_format": "pcm"}, {"stream_format": "sse"}])
def test_a_client_that_leaves_cancels_its_speech(more: dict[str, object]) -> None:
    with serving(slowed(engine(), lambda units: True)) as served:
        connection = ask(served, {"input": PROMPTS[2], **more})
        until = time.monotonic() + 10
        while not served.engine.running:
            assert time.monotonic() < until
            time.sleep(0.001)
        connection.close()
        served.wait_until_idle()
        assert 'omniflow_requests_total{state="cancelled"} 1' in served.get("/metrics").body.decode()
        assert not served.engine.results


def test_a_program_without_sound_says_what_it_lacks() -> None:
    with serving(omniflow.load(omniflow.compile("null.image"))) as served:
        answer = served.post(SPEECH, {"input": "x"})
        assert answer.status == 404
        assert "null-image.image speaks no texts" in answer.error


@pytest.mark.weights
@pytest.mark.heavy
def test_real_weights_speak_an_answer_over_http() -> None:
    schedule = omniflow.compile("smol_speech.speech", params={"max_tokens": "10"})
    with serving(omniflow.load(schedule)) as served:
        answer = served.post(SPEECH, {"input": "Say hello.", "response_format": "pcm"})
        want = omniflow.load(schedule).run({"prompt": "Say hello."}).outputs["audio"]
        assert np.abs(spoken(answer) - want.clamp(-1, 1).numpy()).max() < 1e-3
