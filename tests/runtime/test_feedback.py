"""Back edges run from their initial value to their bound, and end with their reader."""

from __future__ import annotations

from typing import Any

import pytest
import torch

import omniflow
from omniflow import BindError, Schedule, State
from tests.schedules import edge, node, schedule

FRAMES = "act[T]"


def summing(*, initial: float, bound: int, arrow: str = "~>", extra: bool = False) -> Schedule:
    """sum[t] = a[t] + sum[t - 1]: the op reads its own output."""
    source = "slow.value" if extra else "sum.sum"
    nodes = [node("sum", "op.add", inputs={"a": FRAMES, "b": FRAMES}, outputs={"sum": FRAMES})]
    edges = [
        edge("a -> sum.a", FRAMES),
        edge(f"{source} {arrow} sum.b", FRAMES, back_edge={"initial": initial, "bound": bound}, line=7),
    ]
    if extra:
        nodes.append(
            node(
                "slow",
                "op.slice",
                inputs={"value": FRAMES},
                outputs={"value": FRAMES},
                attributes={"start": 0, "stop": -1},
            )
        )
        edges.append(edge("sum.sum ~> slow.value", FRAMES))
    return schedule(inputs={"a": FRAMES}, outputs={"sums": ("sum.sum", FRAMES)}, nodes=nodes, edges=edges)


def run(program: Schedule, values: list[float]) -> Any:
    running = omniflow.load(program)
    result = running.run({"a": values})
    assert running.live == 0
    return result


@pytest.mark.parametrize("extra", [False, True])
def test_a_node_that_reads_itself_sums_up(extra: bool) -> None:
    result = run(summing(initial=10.0, bound=100, extra=extra), [1, 2, 3, 4])
    assert result.state is State.DONE, result.error
    assert result.outputs["sums"].tolist() == [11, 13, 16, 20]


def test_a_bound_ends_the_stream() -> None:
    result = run(summing(initial=0.0, bound=2), [1, 2, 3, 4, 5])
    assert result.state is State.DONE, result.error
    assert result.outputs["sums"].tolist() == [1, 3, 6]


def test_no_input_is_no_output() -> None:
    assert torch.equal(run(summing(initial=1.0, bound=9), []).outputs["sums"], torch.zeros(0))


def test_a_back_edge_of_finished_values_is_refused_at_load() -> None:
    with pytest.raises(BindError, match=r"hand.program.yaml:7:3: back edge .* carries a stream: write ~>"):
        omniflow.load(summing(initial=0.0, bound=2, arrow="->"))
