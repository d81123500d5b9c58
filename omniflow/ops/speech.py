"""Ops between sentences, words, phonemes and sound."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import torch

from omniflow.loops.base import Emit
from omniflow.ops.base import Call


def spell(call: Call) -> Iterator[Emit]:
    """`text` (phrases) ~> `characters` and `forced`: an item per word, and one that ends the phrase."""
    lexicon = call.component
    for window in call.windows.values():
        words = lexicon.spell(window.data)
        if not words or lexicon.end_id not in words[-1][1]:
            words = [*words, ([], [lexicon.end_id])]
        for characters, forced in words:
            yield Emit("characters", torch.tensor(characters, dtype=torch.int64), True)
            yield Emit("forced", torch.tensor(forced, dtype=torch.int64), True)


@dataclass(slots=True)
class Phrase:
    """Ids of the phrase so far."""

    ids: list[int] = field(default_factory=list)


def gather(call: Call) -> Iterator[Emit]:
    """`words` ~> `phonemes`: the ids of a phrase, up to the lexicon's end id, as one item for the acoustic model."""
    memory: Phrase = call.memory
    end_id = call.component.end_id
    closes = call.is_end
    for window in call.windows.values():
        ids = window.data.tolist()
        closes = closes or end_id in ids
        memory.ids.extend(i for i in ids if i != end_id)
    if closes and memory.ids:
        ids, memory.ids = memory.ids, []
        yield Emit("phonemes", torch.tensor(call.component.to_acoustic(ids), dtype=torch.int64), True)


@dataclass(slots=True)
class Joined:
    """The item whose samples left last; None before the first."""

    item: int | None = None


def join(call: Call) -> Iterator[Emit]:
    """`items` ~> `samples`: clips one after another with `gap` zero samples between those that are not empty."""
    memory: Joined = call.memory
    for window in call.windows.values():
        if not window.new:
            continue
        gap = int(call.params.get("gap", 0))
        if gap and memory.item is not None and memory.item != window.item:
            yield Emit("samples", window.data.new_zeros(gap))
        memory.item = window.item
        yield Emit("samples", window.data)
