"""OmniFlow's lean decoder alone, serving requests as they arrive."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from workload import Outcome, Request

from omniflow.experts.lean import LeanDecoder, LeanSequence
from omniflow.roles import TokenRows

ROWS_PER_STEP = 64  # rows of one step, prefill chunks and decode rows together: bounds the gap between tokens


@dataclass(slots=True, kw_only=True)
class _Live:
    index: int
    sequence: LeanSequence
    pending: list[int]  # prompt tokens not yet given, or the token sampled last
    left: int
    last: float = 0.0


def serve(decoder: LeanDecoder, requests: Sequence[Request]) -> Outcome:
    """Continuous batching in arrival order: every step takes all decode rows and fills up with prefill chunks."""
    start = time.perf_counter()
    waiting = deque(enumerate(requests))
    live: list[_Live] = []
    ids: list[list[int]] = [[] for _ in requests]
    first, gaps = [0.0] * len(requests), []
    while waiting or live:
        now = time.perf_counter() - start
        while waiting and waiting[0][1].arrives <= now and (opened := _open(decoder, *waiting[0])) is not None:
            live.append(opened)
            waiting.popleft()
        if not live:
            time.sleep(max(0.0, waiting[0][1].arrives - now))
            continue
        for item, token in _step(decoder, live):
            now = time.perf_counter() - start
            if ids[item.index]:
                gaps.append(now - item.last)
            else:
                first[item.index] = now - requests[item.index].arrives
            ids[item.index].append(token)
            item.last = now
            if item.left == 0:
                decoder.close(item.sequence)
                live.remove(item)
    return Outcome(ids=ids, seconds=time.perf_counter() - start, first=first, gaps=gaps)


def _open(decoder: LeanDecoder, index: int, request: Request) -> _Live | None:
    sequence = decoder.open({}, max_positions=len(request.prompt) + request.new)
    if sequence is None:
        return None
    return _Live(index=index, sequence=sequence, pending=list(request.prompt), left=request.new)


def _step(decoder: LeanDecoder, live: Sequence[_Live]) -> list[tuple[_Live, int]]:
    """One forward; the requests that got a token and which."""
    room = ROWS_PER_STEP
    chosen: list[tuple[_Live, int]] = []
    for item in sorted(live, key=lambda one: len(one.pending) > 1):  # decode rows first; stable: then by arrival
        count = min(len(item.pending), room)
        if count:
            chosen.append((item, count))
            room -= count
    rows = [
        TokenRows(
            sequence=item.sequence,
            ids=torch.tensor(item.pending[:count]),
            wants_logits=count == len(item.pending),
        )
        for item, count in chosen
    ]
    got = []
    for (item, count), result in zip(chosen, decoder.step(rows), strict=True):
        del item.pending[:count]
        if result.logits is not None:
            token = int(result.logits.argmax())
            item.pending.append(token)
            item.left -= 1
            got.append((item, token))
    return got


def step_seconds(decoder: LeanDecoder, width: int, *, context: int, repeats: int) -> float:
    """Median seconds of one decode step over `width` sequences of `context` cached tokens."""
    sequences = [decoder.open({}, max_positions=context + repeats) for _ in range(width)]
    live = [sequence for sequence in sequences if sequence is not None]
    token, prompt = torch.tensor([1]), torch.arange(context) % decoder.vocab_size
    for sequence in live:
        decoder.step([TokenRows(sequence=sequence, ids=prompt, wants_logits=False)])
    seconds = []
    for _ in range(repeats):
        start = time.perf_counter()
        decoder.step([TokenRows(sequence=sequence, ids=token) for sequence in live])
        seconds.append(time.perf_counter() - start)
    for sequence in live:
        decoder.close(sequence)
    return sorted(seconds)[repeats // 2]
