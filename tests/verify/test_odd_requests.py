"""Requests of the catalogue's programs with odd values in them: what does not fit is refused and nothing breaks."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from torch import Tensor

import omniflow
from omniflow import InputError, State
from omniflow.params import known_params
from tests.server.test_any_body import ANYTHING, NUMBERS, PLAIN, TEXTS, VALUES
from tests.verify.ways import CHECKPOINTS, WAYS

pytestmark = pytest.mark.hf
ODD = settings(max_examples=20, deadline=None, database=None, derandomize=True, suppress_health_check=list(HealthCheck))
PROGRAMS = [name for name, way in WAYS.items() if way.checkpoint]
LONG = (".steps", ".max_tokens")  # params with which a request may last


def odd_tensor(value: Tensor) -> st.SearchStrategy[Any]:
    """A tensor of another length, shape or type, or of ids that nobody knows."""
    others = [value[:0], value[:1], torch.cat([value, value]), value[None], value.double() + 0.5]
    if not value.is_floating_point():
        others += [value + 10**6, -value - 1]
    return st.sampled_from(others)


def odd_value(value: Any) -> st.SearchStrategy[Any]:
    """Something else of the same type, or anything."""
    if isinstance(value, Tensor):
        return odd_tensor(value) | ANYTHING
    if isinstance(value, list) and value and isinstance(value[0], Tensor):
        return st.just([]) | st.just(value * 3) | odd_tensor(value[0]).map(lambda item: [item]) | ANYTHING
    if isinstance(value, list):
        return st.sampled_from([[], value[:-1], value * 2, [{"role": "tool", "content": "x"}]]) | ANYTHING
    return (TEXTS if isinstance(value, str) else NUMBERS) | ANYTHING


def odd_request(engine: omniflow.Engine, good: Mapping[str, Any]) -> st.SearchStrategy[tuple[dict[str, Any], Any]]:
    """Inputs with an odd one among them, or params."""
    values = {spec.name: good.get(spec.name, spec.default) for spec in engine.schedule.inputs}
    inputs = st.sampled_from(list(values)).flatmap(
        lambda name: odd_value(values[name]).map(lambda value: ({**good, name: value}, {}))
    )
    known = {name: found for name, found in known_params(engine.schedule).items() if not name.endswith(LONG)}
    params = st.sampled_from(sorted(known)).flatmap(
        lambda name: VALUES.get(known[name][2].type, PLAIN).map(lambda value: (dict(good), {name: value}))
    )
    return inputs | params


@pytest.mark.parametrize("name", PROGRAMS)
def test_an_odd_request_is_done_or_refused(name: str, tmp_path: Path) -> None:
    torch.set_num_threads(1)
    way = WAYS[name]
    CHECKPOINTS[way.checkpoint](tmp_path)
    engine = omniflow.load(omniflow.compile(name, params={**way.params, "weights": str(tmp_path)}))
    good = way.requests()[0]
    assert engine.run(good).state is State.DONE

    @ODD
    @given(request=odd_request(engine, good))
    def check(request: tuple[dict[str, Any], dict[str, Any]]) -> None:
        inputs, params = request
        try:
            result = engine.run(inputs, params=params)
        except InputError:
            return
        assert result.state in (State.DONE, State.REFUSED), (request, result.error)
        assert engine.live == 0

    check()
    engine.bound.pools.check()
