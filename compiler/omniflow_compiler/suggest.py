"""Nearest names: what the author probably meant."""

from __future__ import annotations

from collections.abc import Iterable


def distance(a: str, b: str, limit: int) -> int:
    """Edit distance with swaps of neighbours (Damerau, optimal string alignment); stops counting above `limit`."""
    if abs(len(a) - len(b)) > limit:
        return limit + 1
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


def nearest(name: str, candidates: Iterable[str], *, most: int = 3) -> list[str]:
    """Up to `most` candidates within a third of the name's length, nearest first, ties by name."""
    limit = max(1, len(name) // 3)
    scored = []
    for candidate in set(candidates):
        edits = distance(name.lower(), candidate.lower(), limit)
        if edits <= limit:
            scored.append((edits, candidate))
    return [candidate for _, candidate in sorted(scored)[:most]]


def did_you_mean(name: str, candidates: Iterable[str], what: str) -> list[str]:
    """Help lines for an unknown name: the nearest ones, or all of them when they are few."""
    known = sorted(set(candidates))
    close = nearest(name, known)
    if close:
        return [f"did you mean {' or '.join(f'`{c}`' for c in close)}?"]
    if not known:
        return [f"there is no {what} here"]
    if len(known) <= 8:
        return [f"known {what}s: {', '.join(f'`{c}`' for c in known)}"]
    return [f"there are {len(known)} {what}s, among them {', '.join(f'`{c}`' for c in known[:6])}"]
