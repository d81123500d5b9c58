"""The trace is complete: its sums are those of the records, and everything in it says where it was written."""

from __future__ import annotations

import json
import re
from collections import Counter
from typing import Any

import pytest

from omniflow import Limits, Result
from omniflow.trace import chrome_trace
from tests.runtime import test_inner as frames
from tests.runtime.program import PROMPTS, drain, engine, speech

Events = list[dict[str, Any]]
PLACE = re.compile(r".+\.ya?ml:[1-9]\d*:[1-9]\d*")


@pytest.fixture(scope="module")
def traced() -> tuple[Events, list[Result]]:
    running = engine(trace=True, limits=Limits(running=3))
    ids = [running.submit({"prompt": prompt}) for prompt in PROMPTS]
    drain(running)
    results = [result for result in map(running.result, ids) if result is not None]
    assert running.trace is not None
    return json.loads(chrome_trace(running.trace, running.schedule))["traceEvents"], results


def test_units_of_each_node_and_request_are_those_of_the_record(traced: tuple[Events, list[Result]]) -> None:
    events, results = traced
    units = [event for event in events if event["ph"] == "X"]
    for pid in (1, 2):  # the tracks of experts and those of requests tell the same
        found = Counter((event["args"]["request"], *event["name"].split(" ")) for event in units if event["pid"] == pid)
        wanted = Counter(
            {
                (result.id, node, kind): count
                for result in results
                for node, done in result.record["nodes"].items()
                for kind, count in done["units"].items()
            }
        )
        assert found == wanted


def test_what_went_over_each_edge_is_what_its_port_gave(traced: tuple[Events, list[Result]]) -> None:
    events, results = traced
    sent: Counter[tuple[int, str]] = Counter()
    for event in events:
        if event["ph"] == "i":
            sent[event["tid"], event["args"]["edge"]] += event["args"]["size"]
    checked = 0
    for result in results:
        for channel in speech().channels:
            node, dot, port = channel.source.rpartition(".")
            if dot:
                assert sent[result.id, channel.id] == result.record["nodes"][node]["emitted"].get(port, 0)
                checked += 1
        for name, output in result.record["outputs"].items():
            assert sent[result.id, f"output:{name}"] == output["elements"]
    assert checked > 30


def test_seconds_of_units_add_up_to_the_seconds_of_nodes(traced: tuple[Events, list[Result]]) -> None:
    events, results = traced
    for result in results:
        for node, done in result.record["nodes"].items():
            own = [e for e in events if e["ph"] == "X" and e["pid"] == 2 and e["tid"] == result.id]
            shares = [e["dur"] / e["args"]["width"] for e in own if e["name"].split(" ")[0] == node]
            assert sum(shares) / 1e6 == pytest.approx(done["seconds"], abs=1e-3)
            assert sum(spent["units"] for spent in done["spent"]) == sum(done["units"].values())


def test_every_unit_transfer_and_arrow_says_where_it_is_written(traced: tuple[Events, list[Result]]) -> None:
    events, _ = traced
    kinds = Counter(event["ph"] for event in events)
    assert min(kinds["X"], kinds["i"], kinds["s"]) > 0
    assert kinds["s"] == kinds["f"]
    assert all(PLACE.fullmatch(event["args"]["place"]) for event in events if event["ph"] in "Xisf")


def test_there_is_a_track_for_each_expert_and_each_request(traced: tuple[Events, list[Result]]) -> None:
    events, results = traced
    named = {(e["pid"], e["args"]["name"]): e["tid"] for e in events if e["name"] == "thread_name"}
    for expert in ("thinker", "talker", "acoustic", "vocoder"):
        assert any(e["ph"] == "X" and e["pid"] == 1 and e["tid"] == named[1, expert] for e in events)
    assert {tid for (pid, _), tid in named.items() if pid == 2} == {result.id for result in results}


def test_widths_queue_and_pools_are_counters(traced: tuple[Events, list[Result]]) -> None:
    events, _ = traced
    counters: dict[str, list[dict[str, float]]] = {}
    for event in events:
        if event["ph"] == "C":
            counters.setdefault(event["name"], []).append(event["args"])
    widths = [args["width"] for args in counters["batch width of thinker"]]
    assert max(widths) == 3
    assert widths[-1] == 0
    assert max(args["waiting"] for args in counters["requests"]) == len(PROMPTS)
    assert max(args["thinker"] for args in counters["open sequences"]) == 3


def test_units_of_an_inner_loop_are_on_the_track_of_their_own_expert() -> None:
    running = frames.engine(trace=True)
    assert running.run({"prompt": frames.PROMPTS[0]}).error is None
    assert running.trace is not None
    found = Counter(unit.expert for unit in running.trace.units)
    node = next(node for node in running.schedule.nodes if node.inner is not None)
    assert node.inner is not None
    assert found[node.inner.expert] > found[node.expert or ""] > 0
