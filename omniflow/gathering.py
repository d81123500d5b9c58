"""Whose turn it is to gather caches that are handed on, so that no two requests wait for each other."""

from __future__ import annotations


class Turns:
    """Whose turn it is to gather caches that are handed on.

    A request that has some of the caches it needs and waits for another holds room that it cannot give back. Two of
    them could wait for each other for ever, so one gathers at a time, and begins when all its texts are there.
    """

    def __init__(self) -> None:
        self._owner: int | None = None
        self._ready: dict[int, set[str]] = {}  # by request, the nodes that could begin
        self._taken: dict[int, int] = {}

    def may(self, owner: int, node: str, needed: int) -> bool:
        """Whether that node of a request, one of `needed`, may open its sequence."""
        ready = self._ready.setdefault(owner, set())
        ready.add(node)
        return self._owner in (None, owner) and len(ready) >= needed

    def took(self, owner: int, needed: int) -> None:
        """It opened one; with the last one the turn is over."""
        self._owner = owner
        self._taken[owner] = self._taken.get(owner, 0) + 1
        if self._taken[owner] >= needed:
            self.left(owner)

    def left(self, owner: int) -> None:
        """The request has what it needs, or has ended."""
        self._ready.pop(owner, None)
        self._taken.pop(owner, None)
        if self._owner == owner:
            self._owner = None
