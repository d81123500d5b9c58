"""Experts on another device, without having one: `meta` tensors hold no values, so what mixes devices or waits for a

value inside a forward is an error.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

import omniflow
from omniflow.loaders import cache_of, find_loader
from omniflow.roles import DecoderRows, TokenRows
from tests.parity.references import watching
from tests.verify.ways import CHECKPOINTS, WAYS

pytestmark = pytest.mark.hf
OPEN, STEP, DECODE = "open", "step", "decode"
METHODS = ("encode", "prepare", "velocity", "decode_tiles", "embed", OPEN, STEP, DECODE)
WAITS = {  # once per request, each
    ("wan.video", "umt5"),  # transformers looks whether the mask has gaps
    ("qwen3_omni.tensors", "thinker"),  # looks whether any picture adds something
}
PROGRAMS = (
    "csm.tensors", "flux.true_cfg", "llama.chat", "musicgen.tensors", "qwen2_5_omni.tensors", "qwen3_omni.tensors",
    "wan.video",
)  # fmt: skip
Given = Mapping[str, Any]


def first_calls(engine: omniflow.Engine, requests: list[Mapping[str, Any]]) -> dict[tuple[str, str], Given]:
    """What a program asks of its experts first: the arguments by component and method."""
    calls: dict[tuple[str, str], Given] = {}

    def seeing(component: str, method: str) -> Any:
        return lambda given, _answer: calls.setdefault((component, method), given)

    with ExitStack() as stack:
        for name, expert in engine.bound.experts.items():
            for method in METHODS:
                if hasattr(type(expert), method):
                    stack.enter_context(watching(expert, method, seeing(name, method)))
        for inputs in requests:
            assert engine.run(inputs).state == "done"
    return calls


def moved(value: Any) -> Any:
    """Floats on the device, as hand-offs are; ids stay where they were chosen."""
    if isinstance(value, Tensor):
        return value.to("meta") if value.is_floating_point() else value
    if isinstance(value, Mapping):
        return {key: moved(part) for key, part in value.items()}
    return [moved(part) for part in value] if isinstance(value, list | tuple) else value


def call(expert: Any, method: str, given: Given, opened: Given | None) -> None:
    """The same call of an expert on the device; a sequence or clip begins there."""
    positional = [moved(value) for name, value in given.items() if name.isdigit()]
    named = {name: moved(value) for name, value in given.items() if not name.isdigit()}
    if method == OPEN:
        return
    if method == STEP:
        assert opened is not None
        positional = [[_moved_row(row, expert, opened) for row in given["0"]]]
    if method == DECODE:
        rows = [row for row in given["0"] if isinstance(row, DecoderRows)]  # a tokenizer has none
        fresh = [replace(row, state=expert.open(generator=torch.Generator()), frames=moved(row.frames)) for row in rows]
        positional = [fresh or given["0"]]
    getattr(expert, method)(*positional, **named)


def _moved_row(row: TokenRows, expert: Any, opened: Given) -> TokenRows:
    """The row of a sequence that begins on the device."""
    sequence = expert.open(moved(opened["0"]), max_positions=opened["max_positions"])
    ids, embeds, positions = (moved(value) for value in (row.ids, row.embeds, row.positions))
    return TokenRows(sequence=sequence, ids=ids, embeds=embeds, positions=positions, wants_hidden=row.wants_hidden)


@pytest.mark.parametrize("name", PROGRAMS)
def test_forwards_neither_mix_devices_nor_wait_for_one(name: str, tmp_path: Path) -> None:
    way = WAYS[name]
    CHECKPOINTS[way.checkpoint](tmp_path)
    schedule = omniflow.compile(name, params={**way.params, "weights": str(tmp_path)})
    specs = {spec.name: spec for spec in schedule.experts}
    calls = first_calls(omniflow.load(schedule), list(way.requests()))
    experts = {component for component, _ in calls if (name, component) not in WAITS}
    assert len(experts) > 1
    for component, method in sorted(calls):
        if component in experts:
            spec = replace(specs[component], device="meta")
            expert = find_loader(spec)(spec, cache_of(spec, schedule))
            call(expert, method, calls[component, method], calls.get((component, OPEN)))
