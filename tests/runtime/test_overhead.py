"""What the engine does for a unit is counted in calls of Python functions: no clock, so that it can be a test."""

from __future__ import annotations

import cProfile
import pstats
from functools import cache

import omniflow
from omniflow import Limits, Schedule


@cache
def schedule(max_tokens: int) -> Schedule:
    return omniflow.compile("null.speech", outputs=["text"], params={"max_tokens": str(max_tokens)})


def calls(max_tokens: int, *, requests: int, running: int) -> float:
    """Calls per unit, those of experts and ops with them."""
    engine = omniflow.load(schedule(max_tokens), limits=Limits(running=running))
    engine.run({"prompt": "Why is the sky blue?"})
    ids = [engine.submit({"prompt": "Why is the sky blue?"}, seed=i, keep=False) for i in range(requests)]
    profile = cProfile.Profile()
    profile.enable()
    while not engine.is_idle:
        engine.step()
    profile.disable()
    results = [engine.result(request) for request in ids]
    units = sum(
        sum(node["units"].values())
        for result in results
        if result is not None
        for node in result.record["nodes"].values()
    )
    return float(pstats.Stats(profile).total_calls) / units


def test_a_unit_in_a_batch_costs_about_half_of_one_alone() -> None:
    alone, together = calls(400, requests=1, running=1), calls(400, requests=32, running=32)
    assert alone < 145
    assert together < 66


def test_a_unit_costs_the_same_however_many_requests_wait() -> None:
    few, many = calls(4, requests=64, running=16), calls(4, requests=640, running=16)
    assert abs(many - few) < 0.03 * few
