"""Choosing tokens from logits: every row by its own parameters, all rows at once.

Order of the processors as in transformers' generate: repetition penalty, suppression, minimum length, temperature,
top-k, top-p. The draw is by inverse distribution from one uniform number, so a row's choice needs no shared generator;
a row that brings one draws as transformers does, from the same numbers.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

NEVER = float("-inf")


@dataclass(frozen=True, slots=True, kw_only=True)
class Sampling:
    """One request's wishes. temperature 0 is greedy; top_k 0 and top_p 1 are off; repetition_penalty 1 is off."""

    temperature: float = 0.0
    top_k: int = 0
    top_p: float = 1.0
    repetition_penalty: float = 1.0
    suppress: tuple[int, ...] = ()
    suppress_from: int = 0
    stop: frozenset[int] = frozenset()
    stop_frame: frozenset[int] = frozenset()
    min_tokens: int = 0
    max_tokens: int = 256
    is_plain: bool = field(init=False)  # greedy over the logits as they are

    def __post_init__(self) -> None:
        is_plain = self.temperature == 0.0 and self.repetition_penalty == 1.0
        object.__setattr__(self, "is_plain", is_plain and not (self.suppress or self.suppress_from or self.min_tokens))


def read_sampling(params: Mapping[str, Any]) -> Sampling:
    """Sampling parameters out of a node's attributes. Errors: ValueError naming the parameter and its bounds."""
    sampling = Sampling(
        temperature=float(params.get("temperature", 0.0)),
        top_k=int(params.get("top_k", 0)),
        top_p=float(params.get("top_p", 1.0)),
        repetition_penalty=float(params.get("repetition_penalty", 1.0)),
        suppress=tuple(params.get("suppress", ())),
        suppress_from=int(params.get("suppress_from", 0)),
        stop=frozenset(params.get("stop", ())),
        stop_frame=frozenset(params.get("stop_frame", ())),
        min_tokens=int(params.get("min_tokens", 0)),
        max_tokens=int(params.get("max_tokens", 256)),
    )
    bounds = (
        ("temperature", sampling.temperature, 0.0, 100.0),
        ("top_k", sampling.top_k, 0, 1 << 31),
        ("top_p", sampling.top_p, 1e-9, 1.0),
        ("repetition_penalty", sampling.repetition_penalty, 1e-3, 1e3),
        ("max_tokens", sampling.max_tokens, 0, 1 << 31),
    )
    for name, value, low, high in bounds:
        if not low <= value <= high:
            raise ValueError(f"{name} is {value:g} and must be from {low:g} to {high:g}")
    return sampling


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """What choosing one row's token depends on.

    seen: int64 ids so far; uniform: its number for this step; generator: draws from this in place of `uniform`.
    """

    sampling: Sampling
    num_tokens: int
    seen: Tensor | None
    uniform: float
    generator: torch.Generator | None = None


PLAIN = Choice(sampling=Sampling(), num_tokens=0, seen=None, uniform=0.0)


def choose(logits: Tensor, rows: Sequence[Choice]) -> Tensor:
    """The chosen ids, int64 [W], of float32 logits [W, V]; a row with nothing finite gives -1."""
    busy = [i for i, row in enumerate(rows) if not row.sampling.is_plain]
    if busy:
        logits = logits.clone()
        for i in busy:
            process(logits[i], rows[i])
    best, ids = logits.max(dim=-1)
    drawn = [i for i in busy if rows[i].sampling.temperature > 0.0]
    derived = [i for i in drawn if rows[i].generator is None]
    if derived:
        ids[derived] = draw(logits[derived], [rows[i] for i in derived])
    for i in drawn:
        if rows[i].generator is not None and bool(best[i].isfinite()):
            ids[i] = draw_from_generator(logits[i], rows[i])
    return torch.where(best.isfinite(), ids, -1)


def process(logits: Tensor, row: Choice) -> None:
    """Penalty, suppression and minimum length, in place on one row [V]."""
    sampling = row.sampling
    if sampling.repetition_penalty != 1.0 and row.seen is not None and len(row.seen):
        scores = logits[row.seen]
        factor = sampling.repetition_penalty
        logits[row.seen] = torch.where(scores < 0, scores * factor, scores / factor)
    if sampling.suppress:
        logits[list(sampling.suppress)] = NEVER
    if sampling.suppress_from:
        stop = [i for i in (*sampling.stop, *sampling.stop_frame) if i >= sampling.suppress_from]
        kept = logits[stop]
        logits[sampling.suppress_from :] = NEVER
        logits[stop] = kept
    if row.num_tokens < sampling.min_tokens and sampling.stop:
        logits[list(sampling.stop)] = NEVER


def draw(logits: Tensor, rows: Sequence[Choice]) -> Tensor:
    """Ids drawn from processed logits [W, V] by each row's temperature, top_k and top_p."""
    temperature = torch.tensor([row.sampling.temperature for row in rows], device=logits.device)
    top_k = torch.tensor([row.sampling.top_k or logits.shape[-1] for row in rows], device=logits.device)
    top_p = torch.tensor([row.sampling.top_p for row in rows], device=logits.device)
    uniform = torch.tensor([row.uniform for row in rows], dtype=torch.float64, device=logits.device)
    scores, order = (logits / temperature[:, None]).sort(dim=-1, descending=True, stable=True)
    rank = torch.arange(scores.shape[-1], device=logits.device)
    scores = scores.masked_fill(rank >= top_k[:, None], NEVER)
    probs = scores.softmax(dim=-1)
    before = probs.cumsum(dim=-1) - probs
    probs = probs.masked_fill(before >= top_p[:, None], 0.0).double()
    reach = probs.cumsum(dim=-1)
    position = torch.searchsorted(reach, (uniform * reach[:, -1])[:, None], right=True)
    last = (probs > 0).sum(dim=-1, keepdim=True) - 1
    return order.gather(1, torch.minimum(position, last).clamp(min=0))[:, 0]  # of a row without numbers, any id


def draw_from_generator(logits: Tensor, row: Choice) -> Tensor:
    """An id, int64 [], drawn from processed logits [V] with the very operations of transformers' generate."""
    sampling, scores = row.sampling, logits / row.sampling.temperature
    if sampling.top_k:
        least = scores.topk(min(sampling.top_k, len(scores))).values[-1]
        scores = scores.masked_fill(scores < least, NEVER)
    if sampling.top_p < 1.0:
        ascending, order = scores.sort(descending=False)
        is_out = ascending.softmax(dim=-1).cumsum(dim=-1) <= 1 - sampling.top_p
        is_out[-1] = False
        scores = scores.masked_fill(torch.zeros_like(is_out).scatter(0, order, is_out), NEVER)
    probs = scores.softmax(dim=-1).cpu()  # the generator is of the CPU
    return torch.multinomial(probs, 1, generator=row.generator)[0]
