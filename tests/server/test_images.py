from __future__ import annotations

import base64
import json
import time
from collections.abc import Iterator
from typing import Any

import pytest

import omniflow
from omniflow import Limits, Schedule
from omniflow.artefacts import png
from tests.server.programs import painting
from tests.server.served import Answer, Served, serving

IMAGES = "/v1/images/generations"


@pytest.fixture(scope="module")
def schedule() -> Schedule:
    return omniflow.compile("null.image")


@pytest.fixture(scope="module")
def served(schedule: Schedule) -> Iterator[Served]:
    with serving(omniflow.load(schedule)) as found:
        yield found


def painted(schedule: Schedule, seed: int = 0, **inputs: Any) -> bytes:
    """The PNG of a request that runs alone."""
    return png(omniflow.load(schedule).run(inputs, seed=seed).outputs["image"])


def pictures(answer: Answer) -> list[bytes]:
    assert answer.status == 200, answer.body
    return [base64.b64decode(each["b64_json"]) for each in answer.json["data"]]


def test_a_prompt_is_answered_with_a_picture(served: Served, schedule: Schedule) -> None:
    answer = served.post(IMAGES, {"model": "null-image.image", "prompt": "a red tree", "seed": 5, "size": "auto"})
    assert pictures(answer) == [painted(schedule, 5, prompt="a red tree")]
    assert abs(answer.json["created"] - time.time()) < 60


def test_several_pictures_have_seeds_of_their_own_and_run_in_one_batch(schedule: Schedule) -> None:
    with serving(omniflow.load(schedule)) as served:
        found = pictures(served.post(IMAGES, {"prompt": "a red tree", "seed": 7, "n": 3}))
        assert found == [painted(schedule, 7 + i, prompt="a red tree") for i in range(3)]
        assert len(set(found)) == 3
        (batches,) = (each for (_, kind), each in served.engine.metrics.batches.items() if kind == "diffusion_step")
        assert batches.units == 3 * batches.count


def test_a_size_goes_to_height_and_width(tmp_path_factory: pytest.TempPathFactory) -> None:
    sized = painting(tmp_path_factory.mktemp("painting"))
    with serving(omniflow.load(sized)) as served:
        (found,) = pictures(served.post(IMAGES, {"prompt": "a tree", "size": "32x16"}))
        assert found == painted(sized, prompt="a tree", width=32, height=16)
        assert found != painted(sized, prompt="a tree", width=16, height=32)
        (found,) = pictures(served.post(IMAGES, {"prompt": "a tree"}))
        assert found == painted(sized, prompt="a tree")
        answer = served.post(IMAGES, {"prompt": "a tree", "size": "32x100"})
        assert answer.status == 422
        assert "height" in answer.error


@pytest.mark.parametrize(
    ("body", "status", "words"),
    [
        ({}, 422, "prompt"),
        ({"prompt": "x", "model": "dall-e-3"}, 404, "there is no model dall-e-3; this is null-image.image"),
        ({"prompt": "x", "size": "32x16"}, 422, "size: this program paints in one size"),
        ({"prompt": "x", "size": "large"}, 422, "size"),
        ({"prompt": "x", "response_format": "url"}, 422, "response_format: pictures come as b64_json"),
        ({"prompt": "x", "n": 0}, 422, "n: "),
        ({"prompt": "x", "n": 11}, 422, "n: "),
        ({"prompt": "x", "seed": 2**63 - 1}, 422, "seed"),
        ({"prompt": "x", "quality": "hd"}, 422, "quality: "),
        ({"prompt": "x", "style": "vivid"}, 422, "style: "),
        ({"prompt": "x", "stream": True}, 422, "stream: "),
    ],
)
def test_what_a_picture_cannot_have_is_named(served: Served, body: dict[str, object], status: int, words: str) -> None:
    answer = served.post(IMAGES, body)
    assert answer.status == status
    assert words in answer.error


def test_one_of_several_that_fails_is_told_and_nothing_is_left(schedule: Schedule) -> None:
    faults = [{"at": "show", "kind": "raise", "request": 1}]
    with serving(omniflow.load(schedule, profile="test", faults=faults)) as served:
        answer = served.post(IMAGES, {"prompt": "x", "n": 3})
        assert answer.status == 500
        assert "node show" in answer.error
        served.wait_until_idle()
        assert not served.engine.results


def test_more_pictures_than_the_queue_takes_are_told_to_come_back_and_none_is_painted() -> None:
    long = omniflow.compile("null.image", params={"steps": "1000"})
    with serving(omniflow.load(long, limits=Limits(running=1, queued=1))) as served:
        answer = served.post(IMAGES, {"prompt": "x", "n": 9})
        assert answer.status == 429
        served.wait_until_idle()
        assert 'state="done"' not in served.get("/metrics").body.decode()


def test_a_client_that_leaves_cancels_all_of_its_pictures() -> None:
    long = omniflow.compile("null.image", params={"steps": "1000"})
    with serving(omniflow.load(long)) as served:
        connection = served.connect()
        body = json.dumps({"prompt": "x", "n": 4})
        connection.request("POST", IMAGES, body, {"content-type": "application/json"})
        until = time.monotonic() + 10
        while len(served.engine.running) < 4:
            assert time.monotonic() < until
            time.sleep(0.001)
        connection.close()
        served.wait_until_idle()
        assert 'omniflow_requests_total{state="cancelled"} 4' in served.get("/metrics").body.decode()
        assert not served.engine.results


def test_a_program_without_pictures_says_what_it_lacks() -> None:
    with serving(omniflow.load(omniflow.compile("null.frames"))) as served:
        answer = served.post(IMAGES, {"prompt": "x"})
        assert answer.status == 404
        assert "null-frames.speech paints no pictures" in answer.error
