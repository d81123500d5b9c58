"""Nearest names: what the author probably meant."""

from __future__ import annotations

import heapq
from collections.abc import Iterable

MAX_COMPARED = 1_000
MAX_CHARACTERS = 200


def distance(a: str, b: str, limit: int) -> int:
    """Edit distance with swaps of neighbours (Damerau, optimal string alignment); stops counting above `limit`."""
    if abs(len(a) - len(b)) > limit or len(a) > MAX_CHARACTERS:
        return limit + 1
    a, b = _different(a, b)
    before: list[int] = []
    last = list(range(len(b) + 1))
    for i, x in enumerate(a, 1):
        row = [i]
        for j, y in enumerate(b, 1):
            cost = min(last[j] + 1, row[j - 1] + 1, last[j - 1] + (x != y))
            if i > 1 and j > 1 and x == b[j - 2] and a[i - 2] == y:
                cost = min(cost, before[j - 2] + 1)
            row.append(cost)
        if min(row) > limit:
            return limit + 1
        before, last = last, row
    return last[-1]


def _different(a: str, b: str) -> tuple[str, str]:
    """Both without what they begin and end with in common."""
    start, most = 0, min(len(a), len(b))
    while start < most and a[start] == b[start]:
        start += 1
    end = 0
    while end < most - start and a[-1 - end] == b[-1 - end]:
        end += 1
    return a[start : len(a) - end], b[start : len(b) - end]


def nearest(name: str, candidates: Iterable[str], *, most: int = 3) -> list[str]:
    """Up to `most` candidates within a third of the name's length, nearest first, ties by name."""
    limit = max(1, len(name) // 3)
    name = name.lower()
    letters = set(name)
    scored, left = [], MAX_COMPARED
    for candidate in dict.fromkeys(candidates):
        # Each edit changes at most two letters, and comparing sets is a hundred times faster than counting edits.
        if abs(len(candidate) - len(name)) > limit or len(letters ^ set(candidate.lower())) > 2 * limit:
            continue
        left -= 1
        if left < 0:
            break
        edits = distance(name, candidate.lower(), limit)
        if edits <= limit:
            scored.append((edits, candidate))
    return [candidate for _, candidate in sorted(scored)[:most]]


def did_you_mean(name: str, candidates: Iterable[str], what: str) -> list[str]:
    """Help lines for an unknown name: the nearest ones, or all of them when they are few."""
    known = dict.fromkeys(candidates)
    close = nearest(name, known)
    if close:
        return [f"did you mean {' or '.join(f'`{c}`' for c in close)}?"]
    if not known:
        return [f"there is no {what} here"]
    if len(known) <= 8:
        return [f"known {what}s: {', '.join(f'`{c}`' for c in sorted(known))}"]
    first = heapq.nsmallest(6, known)
    return [f"there are {len(known)} {what}s, among them {', '.join(f'`{c}`' for c in first)}"]
