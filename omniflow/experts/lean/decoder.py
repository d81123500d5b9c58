"""The lean decoder: the Autoregressor role for Llama, Qwen2, Qwen3 and Qwen3-MoE shapes over one arena of KV."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
import torch.nn.functional as F
from torch import Tensor

from omniflow.experts.lean.batch import (
    FlatBatch,
    FlatResult,
    LeanSequence,
    Span,
    additions_of,
    lay_out,
    positions_of,
    table_rows_of,
)
from omniflow.experts.lean.config import LeanConfig
from omniflow.experts.lean.rope import Rope
from omniflow.experts.lean.stack import Stack
from omniflow.kv import KvArena
from omniflow.roles import SequenceState, StepResult, TokenRows


class LeanDecoder:
    """Autoregressor of omniflow/roles.py. Decode rows and prefill chunks of any sequences share one flat step.

    taps: name to layer index k; a row that wants hidden states also gets the input of layer k (0: the embeddings),
    which is transformers' `hidden_states[k]`.
    """

    def __init__(
        self,
        config: LeanConfig,
        stack: Stack,
        *,
        embed: Tensor | None,
        arena: KvArena,
        rope: Rope,
        dtype: torch.dtype,
        device: torch.device,
        taps: Mapping[str, int],
    ) -> None:
        self.config = config
        self.arena = arena
        self.dtype = dtype
        self.device = device
        self.taps = dict(taps)
        self._stack = stack
        self._embed = embed
        self._rope = rope

    @property
    def vocab_size(self) -> int:
        """How many logits a row has."""
        return self.config.vocab_size

    @property
    def is_exact(self) -> bool:
        """Whether a row's bits depend on nothing but its sequence: so in the native step, in plain torch not."""
        return self._stack.is_exact

    @property
    def start_ids(self) -> Sequence[int]:
        """None: the prompt is an input."""
        return ()

    def open(self, conditions: Mapping[str, Tensor], *, max_positions: int) -> LeanSequence | None:
        """A new sequence; None while no gap of the arena is long enough.

        Errors: ValueError for conditions (there are none to take) and for a sequence longer than the whole arena.
        """
        if conditions:
            raise ValueError(f"a decoder takes no conditions, got {sorted(conditions)}")
        if max_positions > self.arena.num_tokens:
            raise ValueError(
                f"a sequence of {max_positions} tokens can never fit the cache of {self.arena.num_tokens} tokens"
            )
        extent = self.arena.lease(max_positions)
        return None if extent is None else LeanSequence(extent=extent, max_positions=max_positions)

    def close(self, sequence: SequenceState) -> None:
        """Frees the sequence's extent. Errors: ValueError when it is closed already or not of this decoder."""
        if not isinstance(sequence, LeanSequence) or not sequence.is_open:
            raise ValueError("the sequence was not opened by this decoder, or is closed already")
        self.arena.free(sequence.extent)
        sequence.is_open = False

    def fork(self, source: SequenceState, target: SequenceState, num_tokens: int) -> None:
        """Copies the keys and values that the target has not. Errors: ValueError when one of them is too short."""
        assert isinstance(source, LeanSequence)
        assert isinstance(target, LeanSequence)
        if not target.num_cached <= num_tokens <= min(source.num_cached, target.max_positions):
            raise ValueError(f"{num_tokens} tokens of {source.num_cached} for a sequence of {target.max_positions}")
        self.arena.copy(source.extent, target.extent, target.num_cached, num_tokens)
        target.num_cached = num_tokens

    def trim(self, sequence: SequenceState, num_tokens: int) -> None:
        """Cuts the sequence and its extent. Errors: ValueError for fewer than one token or more than it has."""
        assert isinstance(sequence, LeanSequence)
        sequence.extent = self.arena.trim(sequence.extent, num_tokens)
        sequence.num_cached = sequence.max_positions = num_tokens

    def embed(self, ids: Tensor) -> Tensor:
        """Input embeddings [n, E] of int64 ids [n]. Errors: ValueError for a decoder without an embedding."""
        if self._embed is None:
            raise ValueError("this decoder has no embedding: its rows must bring embeds")
        return F.embedding(ids.to(self.device), self._embed)

    @torch.no_grad()
    def step(self, rows: Sequence[TokenRows]) -> list[StepResult]:
        """One forward over all rows. Errors: ValueError for rows that break the contract of TokenRows."""
        if not rows:
            return []
        spans = lay_out(rows)
        batch = self._flatten(rows, spans)
        result = self._stack.run(batch, self.arena)
        for item, span in zip(rows, spans, strict=True):
            item.sequence.num_cached += span.num_new
        return _scatter(rows, spans, batch, result, self.taps)

    def _flatten(self, rows: Sequence[TokenRows], spans: tuple[Span, ...]) -> FlatBatch:
        table = self._embed if self._stack.reads_tables else None
        table_rows = None if table is None else table_rows_of(rows, spans)
        if table is not None and table_rows is not None:
            embeds, (cos, sin) = table, self._rope.table(max(table_rows.positions) + 1)
        else:
            embeds, (cos, sin) = self._embeds_of(rows), self._rotation_of(rows, spans)
        wants_hidden = any(item.wants_hidden for item in rows)
        return FlatBatch(
            embeds=embeds,
            cos=cos,
            sin=sin,
            table_rows=table_rows,
            spans=spans,
            logit_rows=tuple(row for item, span in zip(rows, spans, strict=True) for row in _logit_rows(item, span)),
            wants_hidden=wants_hidden,
            tap_layers=tuple(self.taps.values()) if wants_hidden else (),
            additions=additions_of(rows, embeds, spans) if table_rows is None else (),
        )

    def _rotation_of(self, rows: Sequence[TokenRows], spans: Sequence[Span]) -> tuple[Tensor, Tensor]:
        positions = positions_of(rows, spans, self.device)
        if positions.dim() == 2 and not self._rope.has_axes:
            raise ValueError("this decoder's positions have one axis")
        return self._rope.rotation(positions)

    def _embeds_of(self, rows: Sequence[TokenRows]) -> Tensor:
        """[T, E] in the decoder's dtype, whether rows bring ids or embeddings."""
        ids = [item.ids for item in rows if item.ids is not None]
        if len(ids) == len(rows):
            return self.embed(torch.cat(ids) if len(ids) > 1 else ids[0])
        parts = [self.embed(item.ids) if item.ids is not None else item.embeds for item in rows]
        return torch.cat([part.to(device=self.device, dtype=self.dtype) for part in parts if part is not None])


def _logit_rows(item: TokenRows, span: Span) -> range:
    """The rows of the batch whose logits a sequence wants."""
    end = span.row + span.num_new
    return range(span.row if item.wants_every else end - int(item.wants_logits), end)


def _scatter(
    rows: Sequence[TokenRows],
    spans: Sequence[Span],
    batch: FlatBatch,
    result: FlatResult,
    taps: Mapping[str, int],
) -> list[StepResult]:
    logits = result.logits.unbind() if result.logits is not None else ()
    results, at = [], 0
    for item, span in zip(rows, spans, strict=True):
        mine = slice(span.row, span.row + span.num_new)
        first, at = at, at + len(_logit_rows(item, span))
        has_last = item.wants_logits and bool(logits)
        has_hidden = item.wants_hidden and result.hidden is not None
        results.append(
            StepResult(
                logits=logits[at - 1] if has_last else None,
                best=result.best[at - 1] if has_last and result.best else None,
                every=result.logits[first:at] if item.wants_every and result.logits is not None else None,
                hidden=result.hidden[mine] if has_hidden and result.hidden is not None else None,
                embeds=batch.embeds[mine] if item.wants_embeds else None,
                taps={name: tap[mine] for name, tap in zip(taps, result.taps, strict=True)}
                if has_hidden and taps
                else None,
            )
        )
    return results
