"""Qwen3-Omni's thinker: the language model over text, sounds and pictures, on the lean decoder."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path

import torch
from torch import Tensor

from omniflow.experts.lean import LeanRows, TensorNames, load, read_config
from omniflow.experts.qwen2_5_omni_tensors import number
from omniflow.experts.qwen2_5_omni_text import Placed, PlacedSequence, cache_tokens
from omniflow.experts.qwen3_omni_config import read_section
from omniflow.roles import SequenceState, StepResult, TokenRows

THINKER = "thinker_config.text_config"
TAP = "accept"  # the hidden state that the talker takes for sounds and pictures


@dataclass(slots=True, kw_only=True, eq=False)
class DeepSequence(PlacedSequence):
    """deep: [P, layers, H], what the first layers add to the prompt's rows (DeepStack)."""

    deep: Tensor


class Thinker(Placed):
    """Role Autoregressor, Embedder's `embed`. Conditions: `positions` int64 [P, 3] and `deep` [P, layers, H] or empty.

    Rows that want hidden states also get the tap `accept`, transformers' `hidden_states[accept_hidden_layer]`, which is
    what that many layers gave before DeepStack features were added behind the last of them.
    """

    def embed(self, ids: Tensor) -> Tensor:
        """[n, H] of int64 [n]."""
        return self.decoder.embed(ids)

    def open(self, conditions: Mapping[str, Tensor], *, max_positions: int) -> SequenceState | None:
        """A new sequence; None while the cache has no room. Errors: ValueError for conditions it does not know."""
        others = {name: value for name, value in conditions.items() if name != "deep"}
        sequence = super().open(others, max_positions=max_positions)
        deep = conditions.get("deep")
        if not isinstance(sequence, PlacedSequence) or deep is None or not deep.numel() or not bool(deep.any()):
            return sequence
        own = {field.name: getattr(sequence, field.name) for field in fields(sequence)}
        return DeepSequence(**own, deep=deep.to(device=self.decoder.device, dtype=self.decoder.dtype))

    def step(self, rows: Sequence[TokenRows]) -> list[StepResult]:
        """One forward over all rows."""
        deepened = [_deepened(row) for row in rows]
        behind = self.decoder.taps.get(TAP, 0) - 1
        return [_undeepened(row, result, behind) for row, result in zip(deepened, super().step(deepened), strict=True)]


def _deepened(row: TokenRows) -> TokenRows:
    sequence, tokens = row.sequence, row.ids if row.ids is not None else row.embeds
    if not isinstance(sequence, DeepSequence) or tokens is None or sequence.num_cached >= len(sequence.deep):
        return row
    part = sequence.deep[sequence.num_cached : sequence.num_cached + len(tokens)]
    missing = len(tokens) - len(part)
    if missing:
        part = torch.cat([part, part.new_zeros(missing, *part.shape[1:])])
    own = {field.name: getattr(row, field.name) for field in fields(TokenRows)}
    return LeanRows(**own, additions=part.unbind(1))


def _undeepened(row: TokenRows, result: StepResult, behind: int) -> StepResult:
    """The tap without what was added right before it."""
    if result.taps is None or not isinstance(row, LeanRows) or not 0 <= behind < len(row.additions):
        return result
    return replace(result, taps={**result.taps, TAP: result.taps[TAP] - row.additions[behind]})


def load_thinker(
    folder: Path, *, dtype: torch.dtype, device: torch.device, cache_bytes: int, block_tokens: int
) -> Thinker:
    """The thinker's language model, without its towers. Errors: CheckpointError."""
    has_talker = "talker_config" in read_section(folder)
    taps = {TAP: number(read_section(folder, "talker_config"), "accept_hidden_layer")} if has_talker else {}
    config = read_config(folder, section=THINKER)
    decoder = load(
        folder, config=config, names=TensorNames.under("thinker.model."), taps=taps, dtype=dtype, device=device,
        cache_tokens=cache_tokens(config, cache_bytes, dtype), block_tokens=block_tokens,
    )  # fmt: skip
    return Thinker(decoder)
