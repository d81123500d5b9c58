"""Encoders that one request has no work for: those of sounds or pictures that it does not bring."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from torch import Tensor

from omniflow.values import is_starred
from omniflow_compiler.schedule import Node, Schedule


class IdleEncoder:
    """Role Encoder. Stands where one would be that nothing is going to ask: no weights are read for it."""

    def encode(self, rows: Sequence[Mapping[str, Tensor]]) -> list[Mapping[str, Tensor]]:
        """Errors: RuntimeError, always."""
        raise RuntimeError(f"an encoder that was not loaded is asked for {len(rows)} rows")


def idle_encoders(schedule: Schedule, given: Mapping[str, Any]) -> dict[str, IdleEncoder]:
    """By component: those that only nodes bind which run for each item of an input that has none here."""
    empty = {spec.name for spec in schedule.inputs if is_starred(spec.type) and not len(given.get(spec.name, ()))}
    idle: set[str] = set()
    asked: set[str] = set()
    for node in schedule.nodes:
        if _has_no_items(node, schedule, empty):
            empty |= {f"{node.id}.{port.name}" for port in node.outputs}
            if node.name == "encode" and node.expert is not None:
                idle.add(node.expert)
                continue
        experts = (node.expert, None if node.inner is None else node.inner.expert)
        asked |= {expert for expert in experts if expert is not None}
    return {name: IdleEncoder() for name in sorted(idle - asked)}


def _has_no_items(node: Node, schedule: Schedule, empty: set[str]) -> bool:
    """Whether a node runs for each item of a stream that has none; back edges bring theirs later."""
    return node.each and any(
        channel.source in empty and is_starred(channel.type)
        for channel in schedule.channels
        if channel.node == node.id and channel.back_edge is None
    )
