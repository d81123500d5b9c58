"""Memories held by reference are let go of once each: replaced, dropped with their turn, or gone with their session."""

from __future__ import annotations

from typing import Any

import pytest

from omniflow import Limits
from omniflow.loops.base import Memory
from omniflow.sessions import Session, Sessions
from omniflow.values import Shared


class Held(Shared):
    def __init__(self) -> None:
        self.holders = 1

    def drop(self) -> None:
        self.holders -= 1
        assert self.holders == 0


class Turn:
    """As much of a request as sessions read."""

    def __init__(self, **memories: Held) -> None:
        self.memories = {node: Memory(value, 8) for node, value in memories.items()}


@pytest.fixture
def sessions() -> Sessions:
    return Sessions(Limits(), lambda: 0.0)


def take(sessions: Sessions, session: Session, turn: Any, *, is_done: bool) -> None:
    sessions.join(session, turn)
    assert sessions.leave(session, turn, is_done=is_done) is None
    assert not turn.memories


def test_a_memory_that_is_replaced_is_let_go_of_and_others_stay(sessions: Sessions) -> None:
    session, first, other, second = sessions.open(), Held(), Held(), Held()
    take(sessions, session, Turn(a=first, b=other), is_done=True)
    take(sessions, session, Turn(a=second), is_done=True)
    assert (first.holders, other.holders, second.holders) == (0, 1, 1)
    assert sessions.num_memories == 2
    assert sessions.num_bytes == 16
    sessions.close(session)
    assert (other.holders, second.holders, sessions.num_memories) == (0, 0, 0)


def test_memories_of_a_turn_that_is_not_done_go_with_it(sessions: Sessions) -> None:
    session, kept, lost = sessions.open(), Held(), Held()
    take(sessions, session, Turn(a=kept), is_done=True)
    take(sessions, session, Turn(a=lost), is_done=False)
    assert (kept.holders, lost.holders, session.num_turns) == (1, 0, 1)


def test_a_session_closed_during_a_turn_keeps_what_the_turn_may_read_until_it_ends(sessions: Sessions) -> None:
    session, read, late = sessions.open(), Held(), Held()
    take(sessions, session, Turn(a=read), is_done=True)
    running: Any = Turn(a=late)
    sessions.join(session, running)
    sessions.close(session)
    assert read.holders == 1
    sessions.leave(session, running, is_done=True)
    assert (read.holders, late.holders) == (0, 0)
    assert not session.memories
