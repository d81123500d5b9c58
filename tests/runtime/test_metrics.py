"""Counters add up to the records of the requests, and the trace shows queue, pools and arrows."""

from __future__ import annotations

import json
import re

from omniflow import Limits
from omniflow.trace import chrome_trace
from tests.runtime.program import PROMPTS, drain, engine


def samples(text: str) -> dict[str, float]:
    return {line.rpartition(" ")[0]: float(line.rpartition(" ")[2]) for line in text.splitlines() if line[0] != "#"}


def test_counters_are_the_sums_of_the_records() -> None:
    running = engine()
    ids = [running.submit({"prompt": prompt}) for prompt in PROMPTS]
    running.cancel(ids[-1])
    drain(running)
    results = [running.result(request) for request in ids]
    found = samples(running.metrics.render(running))
    assert found['omniflow_requests_total{state="done"}'] == len(PROMPTS) - 1
    assert found['omniflow_requests_total{state="cancelled"}'] == 1
    units = sum(r.record["nodes"]["think"]["units"]["ar_token"] for r in results if r and "think" in r.record["nodes"])
    assert found['omniflow_units_total{kind="ar_token",node="think"}'] == units
    audio = sum(r.record["outputs"]["audio"]["elements"] for r in results if r and r.record["outputs"])
    assert found['omniflow_output_elements_total{output="audio"}'] == audio
    batches = sum(value for name, value in found.items() if name.startswith("omniflow_batch_units_total"))
    assert batches == sum(sum(sum(n["units"].values()) for n in r.record["nodes"].values()) for r in results if r)
    assert found["omniflow_queue_depth"] == found["omniflow_requests_running"] == 0
    assert found['omniflow_open_sequences{expert="thinker"}'] == 0
    assert found['omniflow_cache_tokens_used{expert="thinker"}'] == 0


def test_the_text_is_what_prometheus_reads() -> None:
    running = engine()
    running.run({"prompt": "Hm"})
    line = re.compile(r'[a-z_]+(\{[a-z]+="[^"]*"(,[a-z]+="[^"]*")*\})? [-0-9.e+]+|# (HELP|TYPE) [a-z_]+ .+')
    text = running.metrics.render(running)
    assert all(line.fullmatch(found) for found in text.splitlines())
    assert text.endswith("\n")


def test_a_trace_has_arrows_and_counters() -> None:
    running = engine(trace=True, limits=Limits(running=2))
    for prompt in PROMPTS:
        running.submit({"prompt": prompt})
    drain(running)
    assert running.trace is not None
    events = json.loads(chrome_trace(running.trace, running.schedule))["traceEvents"]
    starts = {event["id"]: event for event in events if event["ph"] == "s"}
    ends = {event["id"]: event for event in events if event["ph"] == "f"}
    assert starts.keys() == ends.keys()
    assert len(starts) > 500
    assert all(starts[number]["ts"] <= ends[number]["ts"] for number in starts)
    levels = [event["args"] for event in events if event["ph"] == "C" and event["name"] == "requests"]
    assert max(level["waiting"] for level in levels) == len(PROMPTS)
    assert max(level["running"] for level in levels) == 2
    pools = [event["args"] for event in events if event["ph"] == "C" and event["name"] == "open sequences"]
    assert max(level["thinker"] for level in pools) == 2
    assert pools[-1] == {"thinker": 0, "talker": 0}
