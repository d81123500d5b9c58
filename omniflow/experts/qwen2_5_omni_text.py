"""Qwen2.5-Omni's two language models: the thinker over text and the talker over codec ids, both on the lean decoder."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from omniflow.experts.lean import Checkpoint, LeanConfig, LeanDecoder, LeanSequence, TensorNames, load, read_config
from omniflow.experts.qwen2_5_omni_tensors import fill, number, read_section
from omniflow.kv import ExtentLedger
from omniflow.roles import SequenceState, StepResult, TokenRows

THINKER, TALKER = "thinker_config.text_config", "talker_config"


@dataclass(slots=True, kw_only=True, eq=False)
class PlacedSequence(LeanSequence):
    """A sequence whose first tokens have given places, int64 [axes, P]; later ones go on behind the largest."""

    places: Tensor
    first_free: int


class Placed:
    """Role Autoregressor over a lean decoder. Condition `positions`: int64 [P, axes] of the prompt, if it has any."""

    def __init__(self, decoder: LeanDecoder) -> None:
        self.decoder = decoder

    @property
    def vocab_size(self) -> int:
        """How many logits a row has."""
        return self.decoder.vocab_size

    @property
    def start_ids(self) -> Sequence[int]:
        """None: the prompt is an input."""
        return ()

    @property
    def arena(self) -> ExtentLedger:
        """Who holds what of the cache."""
        return self.decoder.arena

    def open(self, conditions: Mapping[str, Tensor], *, max_positions: int) -> SequenceState | None:
        """A new sequence; None while the cache has no room. Errors: ValueError for conditions it does not know."""
        others = {name: value for name, value in conditions.items() if name != "positions"}
        sequence = self.decoder.open(others, max_positions=max_positions)
        positions = conditions.get("positions")
        if sequence is None or positions is None:
            return sequence
        first_free = int(positions.max()) + 1 if len(positions) else 0
        return PlacedSequence(
            extent=sequence.extent, max_positions=max_positions, places=positions.T, first_free=first_free
        )

    def close(self, sequence: SequenceState) -> None:
        """Frees what the sequence holds."""
        self.decoder.close(sequence)

    def step(self, rows: Sequence[TokenRows]) -> list[StepResult]:
        """One forward over all rows."""
        return self.decoder.step([_placed(row) for row in rows])


def _placed(row: TokenRows) -> TokenRows:
    sequence, tokens = row.sequence, row.ids if row.ids is not None else row.embeds
    if not isinstance(sequence, PlacedSequence) or tokens is None:
        return row
    start, count, known = sequence.num_cached, len(tokens), sequence.places.shape[1]
    given = sequence.places[:, start : start + count]
    fresh = count - given.shape[1]
    if fresh:
        after = sequence.first_free + max(start - known, 0)
        more = torch.arange(after, after + fresh, device=given.device).expand(len(given), -1)
        given = torch.cat([given, more], dim=1)
    return replace(row, positions=given)


class Thinker(Placed):
    """The language model: text ids or embeddings in, text ids out."""

    def embed(self, ids: Tensor) -> Tensor:
        """[n, H] of int64 [n]."""
        return self.decoder.embed(ids)


class Talker(Placed):
    """The speech model: rows of the thinker's space in, codec ids out."""

    def __init__(self, decoder: LeanDecoder, *, table: Tensor, weight: Tensor, bias: Tensor) -> None:
        super().__init__(decoder)
        self.table, self.weight, self.bias = table, weight, bias

    def embed(self, ids: Tensor) -> Tensor:
        """[n, H of the thinker] of int64 codec ids [n]."""
        return F.embedding(ids.to(self.table.device), self.table)

    def step(self, rows: Sequence[TokenRows]) -> list[StepResult]:
        """One projection and one forward over all rows; their `embeds` come back as they went in."""
        parts = [self.embed(row.ids) if row.ids is not None else row.embeds for row in rows]
        outer = [part.to(self.table) for part in parts if part is not None]
        inner = F.linear(torch.cat(outer), self.weight, self.bias).split([len(part) for part in outer])
        results = super().step([replace(row, ids=None, embeds=own) for row, own in zip(rows, inner, strict=True)])
        return [
            replace(result, embeds=own) if row.wants_embeds else result
            for row, result, own in zip(rows, results, outer, strict=True)
        ]


def load_thinker(
    folder: Path, *, dtype: torch.dtype, device: torch.device, cache_bytes: int, block_tokens: int
) -> Thinker:
    """The thinker's language model, without its towers. Errors: CheckpointError."""
    read_section(folder, THINKER)
    config = read_config(folder, section=THINKER)
    names = TensorNames.under("thinker.model.")
    tokens = cache_tokens(config, cache_bytes, dtype)
    decoder = load(
        folder, dtype=dtype, device=device, cache_tokens=tokens, block_tokens=block_tokens, names=names, config=config
    )
    return Thinker(decoder)


def load_talker(
    folder: Path, *, dtype: torch.dtype, device: torch.device, cache_bytes: int, block_tokens: int
) -> Talker:
    """The talker with its table and projection. Errors: CheckpointError."""
    section, config = read_section(folder, TALKER), read_config(folder, section=TALKER)
    with torch.device("meta"):
        table = nn.Embedding(config.vocab_size, number(section, "embedding_size"))
        proj = nn.Linear(number(section, "embedding_size"), config.hidden_size)
    checkpoint = Checkpoint(folder)
    fill(table, checkpoint, "talker.model.embed_tokens.", dtype=dtype, device=device)
    fill(proj, checkpoint, "talker.thinker_to_talker_proj.", dtype=dtype, device=device)
    others = ("talker.model.embed_tokens.",)
    names = TensorNames(body="talker.model.", embed=None, head="talker.codec_head.weight", others=others)
    tokens = cache_tokens(config, cache_bytes, dtype)
    decoder = load(
        folder, dtype=dtype, device=device, cache_tokens=tokens, block_tokens=block_tokens, names=names, config=config
    )
    return Talker(decoder, table=table.weight, weight=proj.weight, bias=proj.bias)


def cache_tokens(config: LeanConfig, cache_bytes: int, dtype: torch.dtype) -> int:
    """How many tokens of keys and values fit."""
    return max(cache_bytes // (2 * config.num_layers * config.num_kv_heads * config.head_dim * dtype.itemsize), 1)
