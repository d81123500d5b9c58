"""Downstream nodes start as soon as there is something for them."""

from __future__ import annotations

from tests.runtime.program import PROMPTS, alone, drain, engine


def test_the_first_sentence_is_spoken_before_the_last_token_is_thought() -> None:
    for prompt in PROMPTS:
        if alone(prompt)[0].count(".") < 2:
            continue
        running = engine(trace=True)
        running.run({"prompt": prompt})
        assert running.trace is not None
        order = [unit.node for unit in running.trace.units]
        last_token = max(i for i, node in enumerate(order) if node == "think")
        assert order.index("wave") < last_token


def test_some_prompt_has_several_sentences() -> None:
    assert sum(alone(prompt)[0].count(".") >= 2 for prompt in PROMPTS) >= 2


def test_every_unit_and_every_transfer_is_in_the_trace() -> None:
    running = engine(trace=True)
    ids = [running.submit({"prompt": prompt}) for prompt in PROMPTS]
    drain(running)
    trace = running.trace
    assert trace is not None
    for request in ids:
        result = running.result(request)
        assert result is not None
        for node, record in result.record["nodes"].items():
            units = [unit for unit in trace.units if (unit.request, unit.node) == (request, node)]
            assert len(units) == sum(record["units"].values())
            assert [unit.number for unit in units] == list(range(len(units)))
        for edge in running.schedule.channels:
            node, _, port = edge.source.partition(".")
            if not port:
                continue
            moved = sum(event.size for event in trace.transfers if (event.request, event.edge) == (request, edge.id))
            assert moved == result.record["nodes"][node]["emitted"].get(port, 0)
