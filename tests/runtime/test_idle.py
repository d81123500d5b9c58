"""Which encoders a request has no work for."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from omniflow.idle import IdleEncoder, idle_encoders
from omniflow_compiler.schedule import Node, Schedule
from tests.schedules import edge, expert, node, schedule


def encoder(name: str, binds: str, kind: str, *, each: bool = True) -> Node:
    return node(name, "loop.encode", inputs={"x": kind}, outputs={"y": kind}, expert=binds, each=each)


def program() -> Schedule:
    """Pictures pass two encoders, the second of which also reads what every request brings; sounds pass one."""
    many, one = "f32[N*, T]", "f32[T]"
    nodes = [
        encoder("see", "eyes", many), encoder("look", "shared", many), encoder("hear", "ears", many),
        encoder("read", "shared", one, each=False),
        node("join", "op.concat", inputs={"parts": many}, outputs={"whole": one}),
    ]  # fmt: skip
    edges = [
        edge("pictures ~> see.x", many), edge("see.y ~> look.x", many), edge("sounds ~> hear.x", many),
        edge("words -> read.x", one), edge("hear.y -> join.parts", many),
    ]  # fmt: skip
    experts = [expert(name, "given") for name in ("eyes", "ears", "shared")]
    inputs = {"pictures": many, "sounds": many, "words": one}
    return schedule(inputs=inputs, outputs={"whole": ("join.whole", one)}, nodes=nodes, edges=edges, experts=experts)


def test_encoders_of_what_does_not_come_are_idle_unless_others_need_them_too() -> None:
    word = torch.zeros(3)
    assert set(idle_encoders(program(), {"words": word})) == {"eyes", "ears"}
    assert set(idle_encoders(program(), {"words": word, "sounds": [word], "pictures": []})) == {"eyes"}
    assert idle_encoders(program(), {"words": word, "sounds": [word], "pictures": [word]}) == {}
    nodes = tuple(each for each in program().nodes if each.id != "read")
    assert set(idle_encoders(replace(program(), nodes=nodes), {})) == {"eyes", "ears", "shared"}


def test_an_idle_encoder_gives_nothing() -> None:
    with pytest.raises(RuntimeError, match="was not loaded"):
        IdleEncoder().encode([{}])
