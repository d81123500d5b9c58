"""Ids in the attributes of loops, held against the vocabulary of the expert that they choose from."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from omniflow.loops.sampling import Sampling
from omniflow_compiler.schedule import Node, Schedule

CHOSEN = frozenset({"stop", "suppress", "stop_frame"})  # attributes that name ids which the loop may choose


def outside(name: str, value: Any, expert: str, vocabulary: int | None) -> str | None:
    """What is wrong with a loop's attribute whose value has an id beyond the vocabulary; None when nothing is."""
    if name not in CHOSEN or vocabulary is None or not isinstance(value, list | tuple):
        return None
    beyond = next((i for i in value if not 0 <= i < vocabulary), None)
    if beyond is None:
        return None
    return f"has id {beyond}, and {expert} knows ids from 0 to {vocabulary - 1}: its vocabulary has {vocabulary}"


def num_left(sampling: Sampling, vocabulary: int) -> int:
    """How many ids of a vocabulary a loop may choose as its first."""
    if sampling.is_plain:
        return vocabulary
    stops = sampling.stop | sampling.stop_frame
    most = min(sampling.suppress_from or vocabulary, vocabulary)
    refused = set(sampling.suppress) | (sampling.stop if sampling.min_tokens else set())
    return most - sum(i < most for i in refused) + sum(i >= most for i in stops - refused)


def declared(schedule: Schedule) -> dict[str, int]:
    """The vocabularies that components declare, by name."""
    return {spec.name: spec.sizes["vocabulary"] for spec in schedule.experts if "vocabulary" in spec.sizes}


def attributes_of(node: Node) -> Iterator[tuple[str, str, Any, str]]:
    """A loop's attributes and those of the loop inside it: as it is called, its name there, value and expert."""
    if node.kind == "loop" and node.expert is not None:
        yield from ((name, name, value, node.expert) for name, value in node.attributes.items())
    if node.inner is not None:
        own, expert = node.inner.attributes, node.inner.expert
        yield from ((f"{node.inner.loop}.{name}", name, value, expert) for name, value in own.items())
