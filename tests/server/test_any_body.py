"""Whatever a client sends, the server answers with what is wrong with it, and never with an error of its own."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import omniflow
from omniflow.params import known_params
from tests.runtime.program import engine
from tests.schedules import edge, node, schedule
from tests.server.served import Answer, Served, serving

RUN, CHAT = "/v1/requests", "/v1/chat/completions"
SPEECH, IMAGES = "/v1/audio/speech", "/v1/images/generations"
ANY_BODY = settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck))

NUMBERS = st.sampled_from([-1, 0, 1, 2, 3, 7, 311, 316, 317, 10**7, 2**31, 2**63, -(2**63) - 1, 10**30, 10**400]) | (
    st.sampled_from([-0.5, 0.0, 1e-9, 0.7, 1.0, 2.5, 1e9, 1e308, float("nan"), float("inf"), float("-inf")])
)
TEXTS = st.sampled_from(["", "Hm", "x.wav", "think.tokens", "8 * think.tokens", "1/0", "\ud800", "\x00", "é" * 9])
PLAIN = st.none() | st.booleans() | NUMBERS | TEXTS
ANYTHING = st.recursive(
    PLAIN,
    lambda inside: st.lists(inside, max_size=3) | st.dictionaries(TEXTS, inside, max_size=3),
    max_leaves=6,
)
ROWS = st.lists(NUMBERS, max_size=4) | st.lists(st.lists(NUMBERS, min_size=3, max_size=3), max_size=3)
FILES = st.fixed_dictionaries({"base64": TEXTS | st.sampled_from(["AAAA", "UklGRg=="])}, optional={"name": TEXTS})

IDS = st.sampled_from([0, 2, 5, 43, 44, 311, 316, 317, 400, 2**40])
VALUES: Mapping[str, st.SearchStrategy[Any]] = {  # of params, by the type of the attribute
    "int": NUMBERS,
    "float": NUMBERS,
    "bool": st.booleans(),
    "text": TEXTS,
    "expression": NUMBERS | TEXTS,
    "ids": st.lists(IDS, max_size=3),
    "numbers": st.lists(NUMBERS, max_size=4),
}


def or_anything(usual: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    """Mostly what belongs there."""
    return st.one_of(usual, usual, usual, ANYTHING)


GOOD = {
    "text": "Hm",
    "tokens[T]": [1, 2],
    "act[F, 3]": [[0.0, 1.0, 2.0]],
    "act[G, 3]": [],
    "audio[S]": [0.5],
    "json": [],
}


def a_request(program: omniflow.Schedule) -> st.SearchStrategy[Mapping[str, Any]]:
    """Requests that the program takes but for one or two fields, whose values are of their type or anything."""
    good = {spec.name: GOOD[spec.type.text] for spec in program.inputs}
    odd = st.dictionaries(st.sampled_from(list(good)), TEXTS | FILES | ROWS | ANYTHING, min_size=1, max_size=2)
    known = known_params(program)
    param = st.sampled_from(sorted(known)).flatmap(
        lambda name: st.tuples(st.just(name), or_anything(VALUES.get(known[name][2].type, PLAIN)))
    )
    fields: dict[str, st.SearchStrategy[Any]] = {
        "inputs": or_anything(odd.map(lambda own: {**good, **own})),
        "params": or_anything(st.lists(param, min_size=1, max_size=3).map(dict) | st.dictionaries(TEXTS, PLAIN)),
        "seed": NUMBERS,
        "priority": NUMBERS,
        "outputs": or_anything(st.lists(st.sampled_from([spec.name for spec in program.outputs]) | TEXTS, max_size=2)),
        "session": NUMBERS,
        "stream": st.just(True),
        "other": PLAIN,
    }
    field = st.sampled_from([*fields, *["params"] * 8, "inputs"]).flatmap(
        lambda name: st.tuples(st.just(name), fields[name])
    )
    return st.lists(field, min_size=1, max_size=2).map(lambda own: {"inputs": good, **dict(own)})


PARTS = st.sampled_from(["text", "input_audio", "image_url", "other"]).flatmap(
    lambda kind: st.fixed_dictionaries(
        {"type": st.just(kind)},
        optional={
            "text": TEXTS,
            "input_audio": or_anything(st.fixed_dictionaries({"data": TEXTS, "format": TEXTS})),
            "image_url": or_anything(st.fixed_dictionaries({"url": TEXTS | st.just("data:image/png;base64,AAAA")})),
        },
    )
)
MESSAGES = st.lists(
    st.fixed_dictionaries(
        {
            "role": or_anything(st.sampled_from(["user", "user", "system", "assistant"])),
            "content": or_anything(TEXTS | st.lists(PARTS, max_size=2)),
        }
    ),
    max_size=3,
)
CHATS = st.fixed_dictionaries(
    {"messages": or_anything(MESSAGES)},
    optional={
        "model": PLAIN,
        "modalities": or_anything(st.lists(st.sampled_from(["text", "audio"]))),
        "audio": or_anything(st.fixed_dictionaries({}, optional={"voice": PLAIN, "format": PLAIN})),
        "stream": st.booleans(),
        "temperature": NUMBERS,
        "top_p": NUMBERS,
        "repetition_penalty": NUMBERS,
        "max_tokens": NUMBERS,
        "max_completion_tokens": NUMBERS,
        "seed": NUMBERS,
        "n": NUMBERS,
        "user": PLAIN,
    },
)

SPEECHES = st.fixed_dictionaries(
    {"input": or_anything(TEXTS)},
    optional={
        "model": PLAIN,
        "voice": or_anything(st.sampled_from(["default", "Bea"])),
        "response_format": or_anything(st.sampled_from(["wav", "pcm", "mp3"])),
        "stream_format": or_anything(st.sampled_from(["audio", "sse"])),
        "speed": NUMBERS,
        "instructions": PLAIN,
        "seed": NUMBERS,
    },
)
PICTURES = st.fixed_dictionaries(
    {"prompt": or_anything(TEXTS)},
    optional={
        "model": PLAIN,
        "n": NUMBERS,
        "size": or_anything(st.sampled_from(["auto", "8x8", "0x0", "99999x1", "x", "8x8x8"])),
        "response_format": or_anything(st.sampled_from(["b64_json", "url"])),
        "seed": NUMBERS,
        "user": PLAIN,
    },
)


def tensors() -> omniflow.Engine:
    """A program of tensors in and tensors out, without an expert."""
    rows, ids, sound = "act[F, 3]", "tokens[T]", "audio[S]"
    return omniflow.load(
        schedule(
            inputs={"rows": rows, "more": "act[G, 3]", "ids": ids, "sound": sound, "notes": "json"},
            outputs={
                "rows": ("put.rows", rows), "ids": ("strip.tokens", ids), "sound": ("cut.value", sound),
            },
            nodes=[
                node("put", "op.put_first", inputs={"rows": rows, "values": "act[G, 3]"}, outputs={"rows": rows}),
                node("strip", "op.strip", inputs={"tokens": ids}, outputs={"tokens": ids}, attributes={"drop": (7,)}),
                node("cut", "op.slice", inputs={"value": sound}, outputs={"value": sound},
                     attributes={"start": 0, "stop": -1}),
            ],
            edges=[
                edge("rows -> put.rows", rows),
                edge("more -> put.values", "act[G, 3]"),
                edge("ids ~> strip.tokens", ids),
                edge("sound ~> cut.value", sound),
            ],
        )
    )  # fmt: skip


PROGRAMS: Mapping[str, Callable[[], omniflow.Engine]] = {
    "speech": engine,
    "image": lambda: omniflow.load(omniflow.compile("null.image")),
    "frames": lambda: omniflow.load(omniflow.compile("null.frames")),
    "tensors": tensors,
}


@pytest.fixture(scope="module")
def programs() -> Iterator[Mapping[str, Served]]:
    with ExitStack() as stack:
        yield {name: stack.enter_context(serving(make())) for name, make in PROGRAMS.items()}


def assert_told(answer: Answer, sent: object) -> None:
    """The answer is a result, or one line that says what is wrong; a stream ends with either."""
    assert answer.status < 500, (sent, answer.body)
    if answer.status != 200:
        assert answer.error, sent
        assert "\n" not in answer.error
    elif answer.headers["content-type"].startswith("text/event-stream"):
        assert b'"state": "failed"' not in answer.body, (sent, answer.body[-400:])
        assert b'"type": "failed"' not in answer.body, (sent, answer.body[-400:])


def sent_to(served: Served, path: str, body: object) -> Answer:
    return served.post(path, json.dumps(body).encode())


@pytest.mark.parametrize("name", list(PROGRAMS))
def test_no_request_makes_the_server_fail(programs: Mapping[str, Served], name: str) -> None:
    served = programs[name]

    @ANY_BODY
    @given(body=a_request(served.engine.schedule) | ANYTHING)
    def check(body: object) -> None:
        assert_told(sent_to(served, RUN, body), body)

    check()
    served.wait_until_idle()


@pytest.mark.parametrize(
    ("name", "path", "forms"),
    [("speech", CHAT, CHATS), ("speech", SPEECH, SPEECHES), ("image", IMAGES, PICTURES)],
    ids=["chat", "speech", "image"],
)
def test_no_form_makes_the_server_fail(
    programs: Mapping[str, Served], name: str, path: str, forms: st.SearchStrategy[Any]
) -> None:
    served = programs[name]

    @ANY_BODY
    @given(body=forms | ANYTHING)
    def check(body: object) -> None:
        assert_told(sent_to(served, path, body), body)

    check()
    served.wait_until_idle()
