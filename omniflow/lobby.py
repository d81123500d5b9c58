"""Where requests wait to be let in: for a place, and turns of a session for those before them."""

from __future__ import annotations

from collections.abc import Callable

from omniflow.admission import Queue
from omniflow.batcher import Limits
from omniflow.request import Request, State
from omniflow.sessions import Sessions


class Lobby:
    """Requests that wait. Clients put them in from any thread; the engine's takes them out."""

    def __init__(self, limits: Limits, now: Callable[[], float]) -> None:
        self.queue = Queue(limits)
        self.sessions = Sessions(limits, now)
        self.lock = self.sessions.lock
        self.waiting: dict[int, Request] = {}

    def enter(self, request: Request) -> None:
        """A request waits for its place, and a turn for those of its session before it. Errors: BusyError."""
        with self.lock:
            session = request.session
            self.queue.put(request, is_parked=session is not None and bool(session.turns))
            self.waiting[request.id] = request
            if session is not None:
                self.sessions.join(session, request)

    def take(self) -> Request:
        """The next one; `queue.num_ready` tells whether there is one."""
        with self.lock:
            request = self.queue.take()
            del self.waiting[request.id]
            return request

    def put_back(self, request: Request) -> None:
        """A request that begins anew waits again."""
        with self.lock:
            self.waiting[request.id] = request
            self.queue.put_back(request)

    def leave(self, request: Request) -> None:
        """A request has ended, here or at work: its session keeps what it leaves if it is done, and goes on."""
        with self.lock:
            session = request.session
            if self.waiting.pop(request.id, None) is not None:
                self.queue.remove(request)
            if session is not None and request in session.turns:
                following = self.sessions.leave(session, request, is_done=request.state is State.DONE)
                if following is not None:
                    self.queue.unpark(following)
