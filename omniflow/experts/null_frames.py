"""A tiny speech model that writes frames of codes, its tiny depth model, and a tiny causal decoder. Exact sums."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from omniflow.experts.null_language import BIG, WIDTH, NullLanguage, arena_of
from omniflow.experts.null_text import STOP, VOCAB
from omniflow.kv import ExtentLedger
from omniflow.roles import DecoderRows, DecoderState
from omniflow_compiler.schedule import Cache, Expert

CODES = 32
GROUPS = 4
HOP = 8
CONTEXT = 2


class NullFramer(NullLanguage):
    """Reads text ids, then frames int64 [n, 4], whose embeddings it adds up; ends after some of them."""

    def __init__(self, *, seed: int, arena: ExtentLedger) -> None:
        super().__init__(vocab_size=VOCAB, seed=seed, start_ids=(), arena=arena)
        generator = torch.Generator().manual_seed(seed + 1)
        self.tables = torch.randint(-4, 5, (GROUPS, CODES, WIDTH), generator=generator).float()

    def embed(self, ids: Tensor) -> Tensor:
        if ids.ndim == 1:
            return self.table[ids]
        return self.tables[torch.arange(GROUPS), ids].sum(1)

    def bias(self, hidden: Tensor, positions: Tensor, lengths: Tensor) -> Tensor:
        del positions, lengths
        bias = torch.full((len(hidden), self.vocab_size), -BIG)
        bias[:, :CODES] = BIG
        bias[:, STOP] = torch.where(hidden.sum(1).long() % 29 == 3, 2 * BIG, -BIG)
        return bias


class NullDepth(NullLanguage):
    """Role Autoregressor, Primed. Conditions `hidden` [1, 16] and `first` int64 [1]; each code has its own head."""

    def __init__(self, *, seed: int, arena: ExtentLedger) -> None:
        super().__init__(vocab_size=CODES, seed=seed, start_ids=(), arena=arena)
        generator = torch.Generator().manual_seed(seed + 1)
        self.heads = torch.randint(-4, 5, (GROUPS, WIDTH, CODES), generator=generator).float()

    def prompt(self, conditions: Mapping[str, Tensor]) -> Tensor:
        return torch.cat([conditions["hidden"], self.embed(conditions["first"])])

    def bias(self, hidden: Tensor, positions: Tensor, lengths: Tensor) -> Tensor:
        del lengths
        return (hidden[:, None] @ self.heads[positions - 1])[:, 0]


class NullComposer(NullLanguage):
    """Role Autoregressor, SelfGuided. Writes a code of every codebook a step about ids `source`, or about nothing."""

    def __init__(self, *, seed: int, arena: ExtentLedger) -> None:
        super().__init__(vocab_size=CODES, seed=seed, start_ids=(CODES,) * GROUPS, arena=arena)
        generator = torch.Generator().manual_seed(seed + 1)
        self.table = torch.randint(-4, 5, (VOCAB, WIDTH), generator=generator).float()
        self.tables = torch.randint(-4, 5, (GROUPS, CODES + 1, WIDTH), generator=generator).float()
        self.heads = torch.randint(-4, 5, (WIDTH, GROUPS, CODES), generator=generator).float()

    def unconditional(self, conditions: Mapping[str, Tensor]) -> Mapping[str, Tensor]:
        del conditions
        return {}

    def embed(self, ids: Tensor) -> Tensor:
        return self.tables[torch.arange(GROUPS), ids].sum(1)

    def score(self, hidden: Tensor, positions: Tensor, lengths: Tensor) -> Tensor:
        del positions, lengths
        return (hidden @ self.heads.flatten(1)).view(len(hidden), GROUPS, CODES)


class NullCodec:
    """Role StreamDecoder. `codes` int64 [left + new, 4] -> 8 samples per frame, from it and the two before it."""

    def __init__(self, *, seed: int) -> None:
        generator = torch.Generator().manual_seed(seed)
        self.waves = torch.randint(-64, 65, (GROUPS, CODES, HOP), generator=generator).float()

    def open(self, *, generator: torch.Generator) -> DecoderState:
        del generator
        return DecoderState()

    def decode(self, rows: Sequence[DecoderRows]) -> list[Tensor]:
        codes = torch.stack([row.frames["codes"] for row in rows])
        waves = torch.nn.functional.pad(self.waves[torch.arange(GROUPS), codes].sum(2), (0, 0, CONTEXT, 0))
        sums = waves.unfold(1, CONTEXT + 1, 1).sum(-1) * 2.0**-11
        for row in rows:
            row.state.num_frames += row.new
        return [part[row.left : row.left + row.new].flatten() for row, part in zip(rows, sums, strict=True)]


def load_framer(spec: Expert, cache: Cache | None) -> NullFramer:
    """Attribute `seed`."""
    return NullFramer(seed=int(spec.attributes.get("seed", 21)), arena=arena_of(cache))


def load_depth(spec: Expert, cache: Cache | None) -> NullDepth:
    """Attribute `seed`."""
    return NullDepth(seed=int(spec.attributes.get("seed", 22)), arena=arena_of(cache))


def load_composer(spec: Expert, cache: Cache | None) -> NullComposer:
    """Attribute `seed`."""
    return NullComposer(seed=int(spec.attributes.get("seed", 24)), arena=arena_of(cache))


def load_codec(spec: Expert, _cache: Cache | None) -> NullCodec:
    """Attribute `seed`."""
    return NullCodec(seed=int(spec.attributes.get("seed", 23)))
