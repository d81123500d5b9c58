"""One step's rows of many sequences, laid end to end: the flat batch that a stack of layers computes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from omniflow.kv import Extent
from omniflow.roles import SequenceState, TokenRows


@dataclass(slots=True, kw_only=True, eq=False)
class LeanSequence(SequenceState):
    """One sequence of a lean decoder: the extent of the arena it may fill, up to `max_positions` tokens."""

    extent: Extent
    max_positions: int
    is_open: bool = True


@dataclass(slots=True, kw_only=True, eq=False)
class LeanRows(TokenRows):
    """Token rows with additions to the first layers' outputs (DeepStack visual features of Qwen3-VL and -Omni).

    additions: one [n, E] per layer from layer 0 on, zero where there is nothing to add.
    """

    additions: tuple[Tensor, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    """A sequence's part of a flat batch: rows `row .. row + num_new` attend to `past` cached tokens and causally to
    themselves; their keys and values go to slots `start + past ..` of the arena.
    """

    row: int
    num_new: int
    past: int
    start: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TableRows:
    """Of each of T rows its id, a row of the table of embeddings, and its position, one of the tables of rotations."""

    ids: Sequence[int]
    positions: Sequence[int]


@dataclass(frozen=True, slots=True, kw_only=True)
class FlatBatch:
    """embeds: [T, E]; cos, sin: float32 [T, D / 2]; logit_rows: flat rows whose logits are wanted.

    table_rows: when given, these three are whole tables, and it names what each row takes of them.
    wants_hidden: the final hidden states of all rows are wanted; additions: one [T, E] per layer from layer 0 on.
    """

    embeds: Tensor
    cos: Tensor
    sin: Tensor
    table_rows: TableRows | None = None
    spans: tuple[Span, ...]
    logit_rows: tuple[int, ...]
    wants_hidden: bool
    tap_layers: tuple[int, ...]
    additions: tuple[Tensor, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class FlatResult:
    """logits: float32 [wanted, V]; hidden: [T, E] after the final norm; taps: one [T, E] per tapped layer.

    best: the ids of the largest logits where the stack knows them, -1 where one is not finite.
    """

    logits: Tensor | None
    hidden: Tensor | None
    taps: tuple[Tensor, ...]
    best: Sequence[int] = ()


def lay_out(rows: Sequence[TokenRows]) -> tuple[Span, ...]:
    """The spans of a step. Errors: ValueError for rows that break the contract of TokenRows."""
    spans: list[Span] = []
    row = 0
    seen: set[int] = set()
    for item in rows:
        sequence, num_new = item.sequence, num_tokens(item)
        if not isinstance(sequence, LeanSequence) or not sequence.is_open:
            raise ValueError("the sequence of a row was not opened by this decoder, or is closed")
        if id(sequence) in seen:
            raise ValueError("a sequence may have only one row in a step")
        if num_new < 1 or sequence.num_cached + num_new > sequence.max_positions:
            raise ValueError(
                f"{num_new} new positions after {sequence.num_cached} do not fit a sequence of {sequence.max_positions}"
            )
        seen.add(id(sequence))
        spans.append(Span(row=row, num_new=num_new, past=sequence.num_cached, start=sequence.extent.start))
        row += num_new
    return tuple(spans)


def num_tokens(item: TokenRows) -> int:
    """How many new positions a row has. Errors: ValueError unless exactly one of ids and embeds is given."""
    if (item.ids is None) == (item.embeds is None):
        raise ValueError("a row has either ids or embeds")
    tensor = item.ids if item.ids is not None else item.embeds
    assert tensor is not None
    return tensor.shape[0]


def slots_of(spans: Sequence[Span]) -> Tensor:
    """int64 [T] on the CPU: the arena slot of every flat row."""
    if all(span.num_new == 1 for span in spans):
        return torch.tensor([span.start + span.past for span in spans])
    return torch.cat([torch.arange(span.start + span.past, span.start + span.past + span.num_new) for span in spans])


def positions_of(rows: Sequence[TokenRows], spans: Sequence[Span], device: torch.device) -> Tensor:
    """int64 [T], or [axes, T] as soon as one row has axes."""
    if all(item.positions is None for item in rows):
        return _default_positions(spans).to(device)
    parts = [
        torch.arange(span.past, span.past + span.num_new) if item.positions is None else item.positions
        for item, span in zip(rows, spans, strict=True)
    ]
    axes = max((part.shape[0] for part in parts if part.dim() == 2), default=0)
    for part, span in zip(parts, spans, strict=True):
        if part.shape[-1] != span.num_new or part.dim() > 2 or (part.dim() == 2 and part.shape[0] != axes):
            raise ValueError(f"positions {list(part.shape)} do not fit {span.num_new} tokens")
    if axes:
        parts = [part if part.dim() == 2 else part.expand(axes, -1) for part in parts]
    return torch.cat([part.to(device) for part in parts], dim=-1)


def table_rows_of(rows: Sequence[TokenRows], spans: Sequence[Span]) -> TableRows | None:
    """Ids and positions of rows that bring nothing but ids; None when one brings or wants more."""
    ids: list[int] = []
    for item in rows:
        has_additions = isinstance(item, LeanRows) and bool(item.additions)
        if item.ids is None or item.positions is not None or item.wants_embeds or has_additions:
            return None
        ids += item.ids.tolist()
    return TableRows(ids=ids, positions=[at for span in spans for at in range(span.past, span.past + span.num_new)])


def _default_positions(spans: Sequence[Span]) -> Tensor:
    if all(span.num_new == 1 for span in spans):
        return torch.tensor([span.past for span in spans])
    return torch.cat([torch.arange(span.past, span.past + span.num_new) for span in spans])


def additions_of(rows: Sequence[TokenRows], embeds: Tensor, spans: Sequence[Span]) -> tuple[Tensor, ...]:
    """One [T, E] per layer that some row adds to."""
    extra = [item.additions if isinstance(item, LeanRows) else () for item in rows]
    depth = max((len(item) for item in extra), default=0)
    flat = [torch.zeros_like(embeds) for _ in range(depth)]
    for item, span in zip(extra, spans, strict=True):
        for layer, tensor in enumerate(item):
            flat[layer][span.row : span.row + span.num_new] = tensor
    return tuple(flat)
