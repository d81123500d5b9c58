"""How far weights in fewer bits are from the same weights in full: what a card's `parity.quantized` bounds."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from omniflow.loaders import cache_of, load_expert
from omniflow.roles import Autoregressor, TokenRows
from omniflow_compiler.schedule import Schedule
from omniflow_compiler.spec import form_key

SEQUENCES, TOKENS = 4, 48


@dataclass(frozen=True, slots=True, kw_only=True)
class Loss:
    """`nats`: how much less likely, per token, the expert in `form` finds what it would write with full weights."""

    expert: str
    form: str
    nats: float
    allowed: float


def losses(schedule: Schedule) -> Iterator[Loss]:
    """One for each expert of the schedule that holds its weights in fewer bits."""
    declared = schedule.parity.get("quantized")
    for spec in schedule.experts:
        form = str(spec.attributes.get("quantize", "none"))
        if form == "none":
            continue
        cache = cache_of(spec, schedule)
        small = load_expert(spec, cache)
        full = load_expert(replace(spec, attributes={**spec.attributes, "quantize": "none"}), cache)
        allowed = declared.get(form_key(spec.name, form)) if isinstance(declared, dict) else None
        yield Loss(
            expert=spec.name,
            form=form,
            nats=divergence(full, small),
            allowed=float(allowed) if isinstance(allowed, int | float) else 0.0,
        )


def divergence(full: Autoregressor, small: Autoregressor) -> float:
    """Mean of KL(full || small) in nats over the tokens of a few sequences that `full` samples; seeded."""
    generator = torch.Generator().manual_seed(0)
    tokens = torch.randint(0, full.vocab_size, (SEQUENCES,), generator=generator)
    sides = [_Side(full), _Side(small)]
    total = 0.0
    for _ in range(TOKENS):
        wanted, found = (side.read(tokens) for side in sides)
        total += float((wanted.exp() * (wanted - found)).sum())
        tokens = torch.multinomial(wanted.exp(), 1, generator=generator)[:, 0]
    for side in sides:
        side.close()
    return total / (TOKENS * SEQUENCES)


class _Side:
    """One expert reading the sequences."""

    def __init__(self, expert: Autoregressor) -> None:
        self._expert = expert
        opened = [expert.open({}, max_positions=TOKENS) for _ in range(SEQUENCES)]
        self._sequences = [sequence for sequence in opened if sequence is not None]

    def read(self, tokens: Tensor) -> Tensor:
        """Log-probabilities after one more token of each, float64 [sequences, V]."""
        rows = [
            TokenRows(sequence=sequence, ids=token[None])
            for sequence, token in zip(self._sequences, tokens, strict=True)
        ]
        logits = [result.logits for result in self._expert.step(rows) if result.logits is not None]
        return torch.stack(logits).double().log_softmax(dim=-1)

    def close(self) -> None:
        """Gives its room back."""
        for sequence in self._sequences:
            self._expert.close(sequence)
