"""Tiny language models with fixed random weights. Numbers are whole, so sums are exact and no batch changes a bit."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from omniflow.experts.null_text import (
    FIRST_PHONEME,
    FIRST_WORD,
    NUM_PHONEMES,
    OPENERS,
    PERIOD,
    STOP,
    TALKER_VOCAB,
    VOCAB,
    WORDS,
)
from omniflow.kv import Extent, ExtentLedger
from omniflow.roles import SequenceState, StepResult, TokenRows
from omniflow_compiler.schedule import Cache, Expert

WIDTH = 16
BIG = 1000.0


@dataclass(slots=True, kw_only=True, eq=False)
class NullSequence(SequenceState):
    """past: [max_positions, D], the sum of all inputs up to each position; source: [D], what it is conditioned on."""

    past: Tensor
    source: Tensor
    length: int  # of the source
    extent: Extent | None = None


class NullLanguage:
    """Role Autoregressor, Embedder, Forks. Hidden state t is a hash of the weighted sum of all inputs up to t."""

    is_exact = True

    def __init__(self, *, vocab_size: int, seed: int, start_ids: Sequence[int], arena: ExtentLedger) -> None:
        generator = torch.Generator().manual_seed(seed)
        self.vocab_size = vocab_size
        self.start_ids = tuple(start_ids)
        self.arena = arena
        self.table = torch.randint(-4, 5, (vocab_size, WIDTH), generator=generator).float()
        self.mix = torch.randint(-4, 5, (WIDTH, WIDTH), generator=generator).float()
        self.head = torch.randint(-4, 5, (WIDTH, vocab_size), generator=generator).float()

    def bias(self, hidden: Tensor, positions: Tensor, lengths: Tensor) -> Tensor:
        """What makes replies look like speech, [B, V]."""
        raise NotImplementedError

    def score(self, hidden: Tensor, positions: Tensor, lengths: Tensor) -> Tensor:
        """Logits of final hidden states [B, D]."""
        return hidden @ self.head + self.bias(hidden, positions, lengths)

    def embed(self, ids: Tensor) -> Tensor:
        return self.table[ids]

    def named_row(self, name: str) -> Tensor:
        return self.table[{"pad": 0, "start": 1, "stop": 2}[name]][None]

    def open(self, conditions: Mapping[str, Tensor], *, max_positions: int) -> NullSequence | None:
        extent = self.arena.lease(max_positions)
        if extent is None:
            return None
        ids = conditions.get("source", torch.zeros(0, dtype=torch.int64))
        weights = torch.arange(1, len(ids) + 1)[:, None] % 5 + 1
        source = (self.table[ids] * weights).sum(0)
        return NullSequence(past=torch.zeros(max_positions, WIDTH), source=source, length=len(ids), extent=extent)

    def close(self, sequence: SequenceState) -> None:
        assert isinstance(sequence, NullSequence)
        assert sequence.extent is not None
        self.arena.free(sequence.extent)
        sequence.extent = None

    def fork(self, source: SequenceState, target: SequenceState, num_tokens: int) -> None:
        assert isinstance(source, NullSequence)
        assert isinstance(target, NullSequence)
        new = slice(target.num_cached, num_tokens)
        target.past[new] = source.past[new]
        target.num_cached = num_tokens

    def trim(self, sequence: SequenceState, num_tokens: int) -> None:
        assert isinstance(sequence, NullSequence)
        assert sequence.extent is not None
        sequence.extent = self.arena.trim(sequence.extent, num_tokens)
        sequence.past = sequence.past[:num_tokens].clone()
        sequence.num_cached = num_tokens

    def step(self, rows: Sequence[TokenRows]) -> list[StepResult]:
        sequences = [_sequence(row) for row in rows]
        embeds = [self.embed(row.ids) if row.ids is not None else _embeds(row) for row in rows]
        counts = [len(x) for x in embeds]
        flat = torch.cat(embeds)
        owner = torch.repeat_interleave(torch.arange(len(rows)), torch.tensor(counts))
        first = torch.tensor([s.num_cached for s in sequences])
        starts = torch.tensor([0, *counts[:-1]]).cumsum(0)
        positions = torch.arange(len(flat)) - starts[owner] + first[owner]
        terms = (flat * (positions % 7 + 1)[:, None]).cumsum(0)
        base = torch.stack([s.past[s.num_cached - 1] if s.num_cached else s.source for s in sequences])
        offset = torch.cat([terms.new_zeros(1, WIDTH), terms])[starts]
        past = terms - offset[owner] + base[owner]
        hidden = (past @ self.mix + positions[:, None] * 3) % 31 - 15
        ends = starts + torch.tensor(counts) - 1
        lengths = torch.tensor([s.length for s in sequences])
        logits = self.score(hidden[ends], positions[ends], lengths)
        results = []
        for i, (row, sequence) in enumerate(zip(rows, sequences, strict=True)):
            at = slice(int(starts[i]), int(starts[i]) + counts[i])
            sequence.past[sequence.num_cached : sequence.num_cached + counts[i]] = past[at]
            sequence.num_cached += counts[i]
            results.append(
                StepResult(
                    logits=logits[i] if row.wants_logits else None,
                    hidden=hidden[at] if row.wants_hidden else None,
                    embeds=embeds[i] if row.wants_embeds else None,
                    every=self.score(hidden[at], positions[at], lengths[owner[at]]) if row.wants_every else None,
                )
            )
        return results


def _sequence(row: TokenRows) -> NullSequence:
    assert isinstance(row.sequence, NullSequence)
    return row.sequence


def _embeds(row: TokenRows) -> Tensor:
    assert row.embeds is not None
    return row.embeds


class NullThinker(NullLanguage):
    """Writes sentences of seven words, each with a word that opens it and a full stop, and ends after some of them."""

    def bias(self, hidden: Tensor, positions: Tensor, lengths: Tensor) -> Tensor:
        del lengths
        place = positions % 8  # of the input; the choice is the token behind it
        first, opened = FIRST_WORD, FIRST_WORD + len(OPENERS)
        bias = torch.zeros(len(hidden), self.vocab_size)
        bias[:, first:opened] = torch.where(place == 0, 2 * BIG, -BIG)[:, None]
        bias[:, opened : first + len(WORDS)] = BIG
        bias[:, PERIOD] = torch.where(place == 7, 2 * BIG, -BIG)
        ends = (place == 0) & (hidden.sum(1).long() % 4 == 0)
        bias[:, STOP] = torch.where(ends, 3 * BIG, -BIG)
        return bias


class NullTalker(NullLanguage):
    """Says about one phoneme per character of its source."""

    def bias(self, hidden: Tensor, positions: Tensor, lengths: Tensor) -> Tensor:
        bias = torch.zeros(len(hidden), self.vocab_size)
        bias[:, FIRST_PHONEME : FIRST_PHONEME + NUM_PHONEMES] = BIG
        bias[:, STOP] = torch.where(positions + 1 > lengths, 2 * BIG, -BIG)
        return bias


def arena_of(cache: Cache | None) -> ExtentLedger:
    """The accounting of a cache; these experts keep no keys and values."""
    tokens = cache.block_tokens if cache else 16
    num_bytes = cache.max_bytes if cache else 4 << 20
    return ExtentLedger(num_blocks=max(-(-(num_bytes // (WIDTH * 4)) // tokens), 1), block_tokens=tokens)


def load_thinker(spec: Expert, cache: Cache | None) -> NullThinker:
    """Attribute `seed`."""
    seed = int(spec.attributes.get("seed", 11))
    return NullThinker(vocab_size=VOCAB, seed=seed, start_ids=(), arena=arena_of(cache))


def load_talker(spec: Expert, cache: Cache | None) -> NullTalker:
    """Attribute `seed`."""
    seed = int(spec.attributes.get("seed", 12))
    return NullTalker(vocab_size=TALKER_VOCAB, seed=seed, start_ids=(1,), arena=arena_of(cache))
