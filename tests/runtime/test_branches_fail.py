"""A node that fails takes the outputs behind it with it, and no other."""

from __future__ import annotations

from typing import Any

import pytest

import omniflow
from omniflow import Engine, Piece, State
from tests.runtime.program import PROMPTS, alone, assert_same, drain, speech


def faulty(*faults: dict[str, Any]) -> Engine:
    return omniflow.load(speech(), profile="test", faults=faults)


@pytest.mark.parametrize("node", ["segment", "spell", "speak", "phrase", "voice", "wave", "join"])
@pytest.mark.parametrize("number", [0, 1])
def test_the_text_comes_whole_when_the_sound_fails(node: str, number: int) -> None:
    pieces: list[Piece] = []
    running = faulty({"at": node, "kind": "raise", "number": number, "request": 0})
    ids = [
        running.submit({"prompt": PROMPTS[0]}, listener=pieces.append),
        running.submit({"prompt": PROMPTS[1]}),
    ]
    drain(running)
    failed = running.result(ids[0])
    assert failed is not None
    assert failed.state is State.FAILED
    assert failed.outputs["text"] == alone(PROMPTS[0])[0]
    assert "".join(piece.data for piece in pieces if piece.output == "text" and piece.data) == alone(PROMPTS[0])[0]
    states = {name: output["state"] for name, output in failed.record["outputs"].items()}
    assert states == {"text": "done", "audio": "failed"}
    assert list(failed.record["errors"]) == [node]
    assert failed.record["errors"][node] == failed.error
    assert str(failed.error).startswith(f"{speech().node(node).place}: node {node}: unit {number}: ")
    assert_same(running.result(ids[1]), PROMPTS[1])
    assert running.live == 0
    running.bound.pools.check()


def test_a_failure_before_the_branches_ends_both() -> None:
    result = faulty({"at": "think", "kind": "raise", "number": 3}).run({"prompt": PROMPTS[0]})
    assert result.state is State.FAILED
    assert {output["state"] for output in result.record["outputs"].values()} == {"failed"}


def test_a_failed_branch_is_not_computed_further() -> None:
    result = faulty({"at": "wave", "kind": "nan", "number": 0}).run({"prompt": PROMPTS[0]})
    whole = omniflow.load(speech()).run({"prompt": PROMPTS[0]})
    assert result.record["nodes"]["speak"]["items"] < whole.record["nodes"]["speak"]["items"]
    assert result.record["nodes"]["think"]["units"] == whole.record["nodes"]["think"]["units"]


def test_two_branches_can_fail_for_reasons_of_their_own() -> None:
    faults = ({"at": "wave", "kind": "raise"}, {"at": "think", "kind": "oom", "number": 40})
    result = faulty(*faults).run({"prompt": PROMPTS[0]})
    assert list(result.record["errors"]) == ["wave", "think"]
    assert {output["state"] for output in result.record["outputs"].values()} == {"failed"}


def test_a_request_with_a_failed_branch_can_be_cancelled() -> None:
    running = faulty({"at": "segment", "kind": "raise"})
    request = running.submit({"prompt": PROMPTS[0]})
    while "segment" not in running.running[request].errors if request in running.running else True:
        running.step()
    running.cancel(request)
    drain(running)
    result = running.result(request)
    assert result is not None
    assert result.state is State.CANCELLED
    assert result.record["outputs"]["text"]["state"] == "stopped"
    assert running.live == 0
