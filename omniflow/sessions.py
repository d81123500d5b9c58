"""Sessions: what loops remember from one request to the next, a turn at a time, whole or not at all.

A turn's memories become the session's when its request is done. One that fails or is cancelled leaves the session as
it was: memories are values that nobody changes.
"""

from __future__ import annotations

import threading
from collections import OrderedDict, deque
from collections.abc import Callable
from typing import TYPE_CHECKING

from omniflow.errors import BusyError, InputError
from omniflow.loops.base import Memory

if TYPE_CHECKING:
    from omniflow.batcher import Limits
    from omniflow.request import Request


class Session:
    """One client's conversation. Belongs to the engine that opened it."""

    __slots__ = ("id", "is_open", "memories", "num_turns", "turns", "used")

    def __init__(self, session_id: int, now: float) -> None:
        self.id = session_id
        self.memories: dict[str, Memory] = {}  # by node
        self.num_turns = 0  # that are done
        self.turns: deque[Request] = deque()  # the one in work or in the queue, and those that wait for it
        self.used = now
        self.is_open = True

    @property
    def num_bytes(self) -> int:
        """What its memories occupy."""
        return sum(memory.num_bytes for memory in self.memories.values())


class Sessions:
    """The sessions of an engine, bounded by count, bytes and the time they lie unused; the longest unused go first.

    Those with a turn in work or waiting stay. Clients may open and submit from other threads than the engine's.
    """

    def __init__(self, limits: Limits, now: Callable[[], float]) -> None:
        self.limits = limits
        self.lock = threading.RLock()
        self._now = now
        self._open: OrderedDict[int, Session] = OrderedDict()  # the longest unused first
        self._num_opened = 0

    def __len__(self) -> int:
        return len(self._open)

    @property
    def num_bytes(self) -> int:
        """What all memories occupy, counted anew."""
        return sum(session.num_bytes for session in self._open.values())

    @property
    def num_memories(self) -> int:
        """Memories of all sessions, counted anew."""
        return sum(len(session.memories) for session in self._open.values())

    def open(self) -> Session:
        """A new session, for which the longest unused one may have to go. Errors: BusyError when all are in use."""
        with self.lock:
            self.expire()
            if len(self._open) >= self.limits.sessions and not self._drop_one():
                raise BusyError(f"all {len(self._open)} sessions are in use and no more are opened; try again later")
            session = self._open[self._num_opened] = Session(self._num_opened, self._now())
            self._num_opened += 1
            return session

    def get(self, session_id: int) -> Session:
        """Errors: InputError for one that is not open."""
        with self.lock:
            self.expire()
            session = self._open.get(session_id)
            if session is not None:
                return session
        if session_id not in range(self._num_opened):
            raise InputError(f"there is no session {session_id}; open one with engine.session()")
        seconds = self.limits.session_seconds
        raise InputError(
            f"session {session_id} has ended: it was closed, lay unused for {seconds:g} s, or made room for others; "
            "open a new one"
        )

    def join(self, session: Session, request: Request) -> None:
        """A turn comes: it is the session's next, or waits for those before it."""
        session.turns.append(request)
        self._use(session)

    def leave(self, session: Session, request: Request, *, is_done: bool) -> Request | None:
        """A turn has ended; what it remembers is kept if it is done. Gives the turn that may start now."""
        was_first = session.turns[0] is request
        session.turns.remove(request)
        memories, request.memories = request.memories, {}
        if is_done and session.is_open:
            self._forget(session, *(node for node in memories if node in session.memories))
            session.memories.update(memories)
            session.num_turns += 1
        else:
            for memory in memories.values():
                memory.let_go()
        if not session.is_open and not session.turns:
            self._forget(session, *session.memories)
        self._use(session)
        while self.num_bytes > self.limits.session_bytes and self._drop_one(but=session):
            pass
        return session.turns[0] if was_first and session.turns else None

    def close(self, session: Session) -> None:
        """Ends a session; what it remembers goes with the last turn that may still read it."""
        with self.lock:
            session.is_open = False
            self._open.pop(session.id, None)
            if not session.turns:
                self._forget(session, *session.memories)

    def expire(self) -> None:
        """Closes the sessions that have lain unused for too long."""
        if not self._open:
            return
        with self.lock:
            oldest = self._now() - self.limits.session_seconds
            while self._open and (session := next(iter(self._open.values()))).used < oldest:
                if session.turns:
                    self._use(session)
                else:
                    self.close(session)

    def _use(self, session: Session) -> None:
        session.used = self._now()
        if session.is_open:
            self._open.move_to_end(session.id)

    def _drop_one(self, but: Session | None = None) -> bool:
        """Closes the longest unused session that has no turn; whether there was one."""
        for session in self._open.values():
            if not session.turns and session is not but:
                self.close(session)
                return True
        return False

    @staticmethod
    def _forget(session: Session, *nodes: str) -> None:
        for node in nodes:
            session.memories.pop(node).let_go()
