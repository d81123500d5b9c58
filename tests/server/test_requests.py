from __future__ import annotations

import base64
import io
import json
import threading
import time
from dataclasses import replace

import numpy as np
import pytest
import soundfile

import omniflow
from omniflow import Limits
from tests.runtime.caches.programs import talk
from tests.runtime.program import PROMPTS, alone, engine, speech
from tests.server.served import Answer, Served, serving

RUN = "/v1/requests"


def sound(answer: Answer) -> np.ndarray:
    file = answer.json["outputs"]["audio"]
    assert file["type"] == "audio/wav"
    samples, rate = soundfile.read(io.BytesIO(base64.b64decode(file["base64"])), dtype="float32")
    assert rate == 24_000
    return samples


def test_a_request_gives_the_text_and_the_sound_of_a_run(served: Served) -> None:
    answer = served.post(RUN, {"inputs": {"prompt": PROMPTS[0]}})
    text, audio = alone(PROMPTS[0])
    assert answer.status == 200
    assert answer.json["state"] == "done"
    assert answer.json["outputs"]["text"] == text
    assert np.abs(sound(answer) - audio.clamp(-1, 1).numpy()).max() <= 1 / 32767


def test_seeds_and_params_are_the_requests_own(served: Served) -> None:
    answer = served.post(RUN, {"inputs": {"prompt": PROMPTS[0]}, "seed": 3, "params": {"think.max_tokens": 4}})
    want = engine().run({"prompt": PROMPTS[0]}, seed=3, params={"think.max_tokens": 4})
    assert answer.json["outputs"]["text"] == want.outputs["text"]
    assert answer.json["record"]["nodes"]["think"]["emitted"]["tokens"] == 4


def test_a_stream_brings_the_same_in_pieces_and_then_its_end(served: Served) -> None:
    answer = served.post(RUN, {"inputs": {"prompt": PROMPTS[1]}, "stream": True})
    text, audio = alone(PROMPTS[1])
    *pieces, (last, end) = answer.events
    assert {name for name, _ in pieces} == {"piece"}
    assert last == "end"
    assert end["state"] == "done"
    assert "".join(piece["data"] for _, piece in pieces if piece["output"] == "text" and piece["data"]) == text
    sounds = [piece["data"] for _, piece in pieces if piece["output"] == "audio" and piece["data"]]
    assert len(sounds) > 1
    assert {(each["type"], each["rate_hz"], each["channels"]) for each in sounds} == {("audio/pcm", 24_000, 1)}
    samples = np.frombuffer(b"".join(base64.b64decode(each["base64"]) for each in sounds), "<i2")
    assert np.abs(samples / 32767 - audio.clamp(-1, 1).numpy()).max() <= 1 / 32767


def test_clients_at_once_get_what_each_gets_alone(served: Served) -> None:
    answers: dict[str, Answer] = {}

    def ask(prompt: str) -> None:
        answers[prompt] = served.post(RUN, {"inputs": {"prompt": prompt}})

    threads = [threading.Thread(target=ask, args=(prompt,)) for prompt in PROMPTS]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for prompt in PROMPTS:
        assert answers[prompt].json["outputs"]["text"] == alone(prompt)[0]


def test_outputs_that_are_not_wanted_are_not_computed(served: Served) -> None:
    answer = served.post(RUN, {"inputs": {"prompt": PROMPTS[2]}, "outputs": ["text"]})
    assert answer.json["outputs"] == {"text": alone(PROMPTS[2])[0]}
    assert set(answer.json["record"]["nodes"]) == {"tokenize", "think", "reply"}


@pytest.mark.parametrize("stream", [False, True])
def test_a_client_that_leaves_cancels_its_request_and_frees_what_it_held(stream: bool) -> None:
    with serving(engine(limits=Limits(width=1, step_tokens=17))) as served:
        connection = served.connect()
        body = json.dumps({"inputs": {"prompt": "a " * 600}, "stream": stream, "params": {"think.max_tokens": 40}})
        connection.request("POST", RUN, body, {"content-type": "application/json"})
        until = time.monotonic() + 10
        while not served.engine.running:
            assert time.monotonic() < until
            time.sleep(0.001)
        if stream:
            connection.getresponse().read(40)
        connection.close()
        served.wait_until_idle()
        states = served.get("/metrics").body.decode()
        assert 'omniflow_requests_total{state="cancelled"} 1' in states
        assert not served.engine.results


def test_what_does_not_fit_the_program_is_told_at_once_with_names(served: Served) -> None:
    answer = served.post(RUN, {"inputs": {"promt": "x"}})
    assert answer.status == 422
    assert "did you mean prompt?" in answer.error
    assert "no output sound" in served.post(RUN, {"inputs": {"prompt": "x"}, "outputs": ["sound"]}).error
    assert served.post(RUN, {"inputs": {"prompt": "x"}, "params": {"think.top": 1}}).status == 422
    assert "inputs" in served.post(RUN, {"inputs": [1]}).error
    assert "sead" in served.post(RUN, {"inputs": {"prompt": "x"}, "sead": 1}).error
    assert served.post(RUN, b"{").error == "the body is not JSON"


@pytest.mark.parametrize("body", [b"", b"[]", b"null", b"\xff\xfe", b"[" * 5000, b'{"inputs": {"prompt": 1e999}}'])
def test_bodies_that_are_no_request_are_refused_in_one_line(served: Served, body: bytes) -> None:
    answer = served.post(RUN, body)
    assert answer.status in (400, 422)
    assert answer.error
    assert "Traceback" not in answer.body.decode()


def test_a_body_that_is_too_large_is_refused_before_it_is_read() -> None:
    with serving(engine(), max_body_bytes=2000) as served:
        assert served.post(RUN, {"inputs": {"prompt": "x" * 3000}}).status == 413
        connection = served.connect()
        connection.putrequest("POST", RUN)
        connection.putheader("transfer-encoding", "chunked")
        connection.endheaders()
        for _ in range(4):
            connection.send(b"400\r\n" + b" " * 1024 + b"\r\n")
        assert connection.getresponse().status == 413


def test_a_full_queue_says_when_to_come_back() -> None:
    with serving(engine(limits=Limits(running=1, queued=1))) as served:
        answers: list[Answer] = []

        def ask() -> None:
            answers.append(served.post(RUN, {"inputs": {"prompt": "a b c " * 40}}))

        threads = [threading.Thread(target=ask) for _ in range(12)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert {answer.status for answer in answers} == {200, 429}
        busy = next(answer for answer in answers if answer.status == 429)
        assert busy.headers["retry-after"] == "1"


def test_a_deadline_that_passes_is_a_timeout_with_what_came() -> None:
    sure_of_itself = replace(speech(), critical_seconds=0.0)  # else a deadline so short would be refused
    with serving(omniflow.load(sure_of_itself, limits=Limits(width=1, step_tokens=17))) as served:
        answer = served.post(RUN, {"inputs": {"prompt": "a " * 600}, "deadline_s": 0.002})
    assert answer.status == 504
    assert answer.json["state"] == "cancelled"
    assert "deadline" in answer.json["error"]["message"]


def test_a_request_that_can_never_be_in_time_is_refused_with_need_and_have(served: Served) -> None:
    answer = served.post(RUN, {"inputs": {"prompt": "x"}, "deadline_s": 1e-9})
    assert answer.status == 422
    assert "needs" in answer.json["error"]["message"]


def test_the_program_is_described(served: Served) -> None:
    found = served.get("/v1/program").json
    assert found["program"] == "null-speech.speech"
    said = {"name": "prompt", "type": "text", "required": True, "default": None, "min": None, "max": None}
    assert found["inputs"] == [said]
    assert {output["name"] for output in found["outputs"]} == {"text", "audio"}
    params = {param["name"] for param in found["params"]}
    assert {"think.temperature", "think.max_tokens", "speak.seed"} <= params


def test_health_metrics_and_the_drawing_answer(served: Served) -> None:
    assert served.get("/health").body == b"ok\n"
    assert b"omniflow_requests_running 0" in served.get("/metrics").body
    assert served.get("/").body == b"<p>drawing"
    assert served.get("/nothing").status == 404
    assert served.send("PUT", RUN, b"{}").status == 405


def test_a_program_without_sessions_says_so_and_unknown_ones_are_not_found(served: Served) -> None:
    assert served.post("/v1/sessions", {}).status == 422
    assert served.send("DELETE", "/v1/sessions/5", None).status == 404
    assert served.post(RUN, {"inputs": {"prompt": "x"}, "session": 5}).status == 422


def test_a_session_goes_on_over_http_as_it_does_in_process() -> None:
    schedule = talk(loop=", session: true")
    first, second = "Why is the sky blue?", "And the grass?"
    alone_there = omniflow.load(schedule)
    session = alone_there.session()
    want = [alone_there.run({"prompt": text}, session=session).outputs["text"] for text in (first, second)]
    with serving(omniflow.load(schedule)) as served:
        number = served.post("/v1/sessions", {}).json["id"]
        bodies = [{"inputs": {"prompt": text}, "session": number} for text in (first, second)]
        assert [served.post(RUN, body).json["outputs"]["text"] for body in bodies] == want
        assert served.send("DELETE", f"/v1/sessions/{number}", None).status == 204
        assert served.post(RUN, bodies[0]).status == 422


def test_outputs_of_a_request_may_be_chosen_without_a_server_too() -> None:
    running = omniflow.load(speech())
    request = running.submit({"prompt": PROMPTS[0]}, outputs=["text"])
    while (result := running.result(request)) is None:
        running.step()
    assert dict(result.outputs) == {"text": alone(PROMPTS[0])[0]}
    assert running.live == 0
    with pytest.raises(omniflow.InputError, match="no output sound"):
        running.submit({"prompt": "x"}, outputs=["sound"])
    with pytest.raises(omniflow.InputError, match="audio, text"):
        running.submit({"prompt": "x"}, outputs=[])


@pytest.mark.parametrize(
    "body",
    [
        rb'{"inputs": {"\ud800": "x"}}',
        rb'{"inputs": {"prompt": "x"}, "params": {"\ud800": 1}}',
        rb'{"inputs": {"prompt": "x"}, "outputs": ["\ud800"]}',
    ],
)
def test_names_that_are_no_utf8_are_told_as_they_were_written(served: Served, body: bytes) -> None:
    answer = served.post("/v1/requests", body)
    assert answer.status == 422
    assert r"\ud800" in answer.error
