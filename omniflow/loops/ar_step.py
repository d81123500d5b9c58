"""One step of an autoregressive expert over rows of many sequences: what goes in, and the tokens that are chosen."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import isfinite
from typing import cast

import torch
from torch import Tensor

from omniflow.loops.base import BadResult, Unit
from omniflow.loops.decoding import PREFILL, TOKEN, Decoding, Step
from omniflow.loops.sampling import PLAIN, Choice, choose
from omniflow.roles import Autoregressor, Embedder, SequenceState, StepResult, TokenRows


def run_step(expert: Autoregressor, units: Sequence[Unit]) -> list[Step | BadResult]:
    """One forward over the units' rows. An expert that raises has cached nothing. Errors: whatever it raises."""
    for unit in units:
        if unit.kind == PREFILL and unit.state.ids:
            _share(unit)
    rows = [_row(expert, unit) for unit in units]
    guided = [i for i, unit in enumerate(units) if unit.state.beside is not None]
    if guided:
        rows += [_row_beside(rows[i], units[i].state.beside) for i in guided]
    results = forward(expert, rows)
    if guided:
        results = _guided(units, guided, results)
    return _choose(expert, units, rows, results)


def forward(expert: Autoregressor, rows: Sequence[TokenRows]) -> Sequence[StepResult]:
    """A result per row. An expert that raises, or gives too few, has cached nothing. Errors: whatever it raises."""
    before = [row.sequence.num_cached for row in rows]
    try:
        results = expert.step(rows)
        if len(results) != len(rows):
            raise ValueError(f"{len(results)} results for {len(rows)} rows")
    except BaseException:
        for row, cached in zip(rows, before, strict=True):
            row.sequence.num_cached = cached
        raise
    return results


def _row_beside(row: TokenRows, sequence: SequenceState) -> TokenRows:
    """The same for the sequence that guidance steers away from."""
    return TokenRows(
        sequence=sequence, ids=row.ids, embeds=row.embeds, positions=row.positions, wants_logits=row.wants_logits
    )


def _guided(units: Sequence[Unit], guided: Sequence[int], results: Sequence[StepResult]) -> list[StepResult]:
    """A result per unit, with u + cfg * (c - u) as the logits of those that are guided."""
    found = list(results[: len(units)])
    for i, without in zip(guided, results[len(units) :], strict=True):
        own, u = found[i], without.logits
        if own.logits is not None and u is not None:
            found[i] = replace(own, logits=u + (own.logits - u) * units[i].state.cfg, best=None)
    return found


def _share(unit: Unit) -> None:
    """Takes of a prompt what others have cached by now: prompts that come together read what they share together."""
    state: Decoding = unit.state
    assert state.sequence is not None
    found = state.pool.share(state.sequence, state.ids)
    state.is_shared = True
    state.num_fed += found
    unit.cached += found
    unit.grant = min(unit.grant, state.num_prompt - state.num_fed)


def _row(expert: Autoregressor, unit: Unit) -> TokenRows:
    """The next part of a prompt, or the next token: as ids, or as its embedding plus the condition's row."""
    state: Decoding = unit.state
    ids, embeds, is_token = state.feed, None, unit.kind == TOKEN
    is_last = is_token or state.num_fed + unit.grant == state.num_prompt
    if not is_token:
        part = state.prompt[state.num_fed : state.num_fed + unit.grant]
        ids, embeds = (None, part) if part.is_floating_point() else (part, None)
    elif state.row is not None:
        assert state.feed is not None
        ids, embeds = None, cast("Embedder", expert).embed(state.feed) + state.row
    assert state.sequence is not None
    wants_logits = is_last and not state.is_full
    wants_hidden = state.wants_hidden if is_token else state.wants_prompt
    return TokenRows(
        sequence=state.sequence,
        ids=ids,
        embeds=embeds,
        wants_logits=wants_logits,
        wants_hidden=wants_hidden or (wants_logits and "hidden" in state.feeds),
        wants_embeds=is_token and state.wants_embeds,
    )


def _choose(
    expert: Autoregressor, units: Sequence[Unit], rows: Sequence[TokenRows], results: Sequence[StepResult]
) -> list[Step | BadResult]:
    """Chooses a token for every row that asked for logits; a row with wrong ones is bad alone."""
    columns = units[0].state.columns
    shape, asked = (*((len(columns.filler),) if columns else ()), expert.vocab_size), []
    steps: list[Step | BadResult] = []
    for i, out in enumerate(results):
        if out.logits is None:
            steps.append(BadResult("no logits") if rows[i].wants_logits else Step(units[i].grant, out))
        elif out.logits.shape != shape:
            steps.append(BadResult(f"logits {list(out.logits.shape)}, not {list(shape)}"))
        else:
            steps.append(BadResult("logits that are not numbers", is_finite=False))  # until its token is known
            asked.append(i)
    if asked and columns:
        return _choose_columns(units, results, asked, steps)
    if asked:
        ids, tokens = _tokens([units[i].state for i in asked], [results[i] for i in asked])
        embeddings = _embeddings(expert, ids, [units[i] for i in asked])
        feeds = ids.split(1) if len(asked) > 1 else (ids,)
        for i, token, feed, embedding in zip(asked, tokens, feeds, embeddings, strict=True):
            if token >= 0:
                unit, out = units[i], results[i]
                is_watched = unit.state.forced or unit.state.wants_logprobs
                step = Step(unit.grant, out, token, feed, None, embedding)
                steps[i] = _watched(unit.state, step) if is_watched else step
    return steps


def _choose_columns(
    units: Sequence[Unit], results: Sequence[StepResult], asked: Sequence[int], steps: list[Step | BadResult]
) -> list[Step | BadResult]:
    """A code of every codebook for the rows that asked for logits."""
    logits = [out.logits for i in asked if (out := results[i]).logits is not None]
    choices = [choice for i in asked for choice in _column_choices(units[i].state)]
    chosen = choose(torch.cat(logits), choices).view(len(asked), -1)
    columns = chosen.cpu()
    for i, mine, column, codes in zip(asked, logits, columns, chosen, strict=True):
        if int(column.min()) >= 0:
            logprob = mine.log_softmax(-1).gather(1, codes[:, None])[:, 0] if units[i].state.wants_logprobs else None
            steps[i] = Step(units[i].grant, results[i], int(column[0]), column, logprob)
    return steps


def _watched(state: Decoding, step: Step) -> Step:
    """With the forced token in place of the chosen one, or with the chosen one's log-probability."""
    if state.forced:
        token = state.forced[len(state.tokens)]
        return step._replace(token=token, feed=torch.tensor([token]))
    assert step.out.logits is not None
    return step._replace(logprob=step.out.logits.log_softmax(-1)[step.feed])


def _tokens(states: Sequence[Decoding], results: Sequence[StepResult]) -> tuple[Tensor, list[int]]:
    """The chosen ids as a tensor [W] and as numbers, which are -1 for rows that are not finite."""
    is_plain = all(state.sampling.is_plain for state in states)
    if is_plain:
        known = [out.best for out in results if out.best is not None and out.best >= 0]
        if len(known) == len(results):
            return torch.tensor(known), known
    logits = [out.logits for out in results if out.logits is not None]
    if not is_plain:
        ids = choose(torch.stack(logits), [_choice(state) for state in states]).cpu()
        return ids, ids.tolist()
    best, ids = torch.stack(logits).max(dim=-1) if len(logits) > 1 else logits[0].max(dim=-1, keepdim=True)
    if best.device.type != "cpu":
        ids = torch.where(best.isfinite(), ids, -1).cpu()  # one wait, not two
        return ids, ids.tolist()
    tokens = [token if isfinite(value) else -1 for token, value in zip(ids.tolist(), best.tolist(), strict=True)]
    return ids, tokens


def _embeddings(expert: Autoregressor, ids: Tensor, units: Sequence[Unit]) -> Sequence[Tensor | None]:
    """The input embedding [1, D] of each chosen id, when an inner loop asks for it."""
    if not any("embeds" in unit.state.feeds for unit in units):
        return [None] * len(units)
    embeddings: Sequence[Tensor] = cast("Embedder", expert).embed(ids.clamp(min=0)).split(1)
    return embeddings


def _column_choices(state: Decoding) -> list[Choice]:
    """A choice per codebook, each with a draw of its own."""
    sampling, step, generator = state.sampling, len(state.tokens), state.rng.shared
    count = 0 if state.columns is None else len(state.columns.filler)
    draws = sampling.temperature > 0.0 and generator is None
    return [
        Choice(
            sampling=sampling,
            num_tokens=step,
            seen=None,
            uniform=state.rng.uniform(step, str(codebook)) if draws else 0.0,
            generator=generator,
        )
        for codebook in range(count)
    ]


def _choice(state: Decoding) -> Choice:
    sampling = state.sampling
    if sampling.is_plain:
        return PLAIN
    step = len(state.tokens)
    seen = torch.tensor([*state.prompt_ids, *state.tokens]) if sampling.repetition_penalty != 1.0 else None
    generator = state.rng.shared
    uniform = state.rng.uniform(step) if sampling.temperature > 0.0 and generator is None else 0.0
    return Choice(sampling=sampling, num_tokens=step, seen=seen, uniform=uniform, generator=generator)
