"""Lets asyncio clients stream from the synchronous engine: one thread steps it while anybody listens."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import TYPE_CHECKING

from omniflow.stream import Ended, Piece

if TYPE_CHECKING:
    from omniflow.engine import Engine
    from omniflow.request import Result

SLICE_SECONDS = 0.002  # how long the engine's thread steps before clients are told what came


class Mailbox:
    """One client's events. The engine's thread puts, the event loop takes; a full box holds the request back."""

    def __init__(self, engine: Engine, capacity: int) -> None:
        self.engine = engine
        self.capacity = capacity
        self.request = -1
        self.pieces: deque[Piece] = deque()
        self.result: Result | None = None
        self.problem: BaseException | None = None
        self.news = asyncio.Event()
        self.is_full = False

    def put(self, piece: Piece) -> None:
        """In the engine's thread: a piece came."""
        self.pieces.append(piece)
        if len(self.pieces) >= self.capacity:
            self.is_full = True
            self.engine.hold(piece.request, is_held=True)  # again and again: one that let it go on may come late

    def take(self) -> Piece:
        """In the event loop: the oldest piece."""
        piece = self.pieces.popleft()
        self.let_go_on()
        return piece

    def let_go_on(self) -> None:
        """In the event loop: a box that is half empty lets its request go on."""
        if self.is_full and len(self.pieces) <= self.capacity // 2:
            self.is_full = False
            self.engine.post_hold(self.request, is_held=False)


class Pump:
    """Steps an engine while there are mailboxes."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self.boxes: dict[int, Mailbox] = {}
        self.thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="omniflow-engine")
        self.task: asyncio.Task[None] | None = None
        self.work = asyncio.Event()

    async def listen(self, box: Mailbox) -> AsyncIterator[Piece | Ended]:
        """The events of a submitted request to its end; leaving early cancels it."""
        self.boxes[box.request] = box
        if self.task is None or self.task.done():
            self.work = asyncio.Event()
            self.task = asyncio.get_running_loop().create_task(self._drive())
        self.work.set()
        try:
            while True:
                while box.pieces:
                    yield box.take()
                    self.work.set()
                if box.problem is not None:
                    raise box.problem
                if box.result is not None and not box.pieces:
                    yield Ended(box.result)
                    return
                box.news.clear()
                if not box.pieces and box.result is None:
                    await box.news.wait()
        finally:
            if box.result is None:
                self.engine.cancel(box.request)
                self.work.set()

    async def _drive(self) -> None:
        loop = asyncio.get_running_loop()

        def ring() -> None:
            loop.call_soon_threadsafe(self.work.set)

        self.engine.mail.bell = ring
        try:
            while self.boxes:
                is_busy = await loop.run_in_executor(self.thread, self._steps)
                self._deliver()
                if not is_busy and self.boxes:
                    await self._sleep()
                self.work.clear()
        except BaseException as error:
            for box in self.boxes.values():
                box.problem = error
                box.news.set()
            raise
        finally:
            self.engine.mail.bell = None
            for request in self.boxes:
                self.engine.cancel(request)
            self.boxes.clear()

    async def _sleep(self) -> None:
        """Until somebody wants something, a deadline passes or a call that had been given up comes back."""
        with suppress(TimeoutError):
            async with asyncio.timeout(self.engine.seconds_to_sleep()):
                await self.work.wait()

    def _steps(self) -> bool:
        """In the engine's thread: steps for a slice of time; False when there is nothing to do."""
        until = time.perf_counter() + SLICE_SECONDS
        while self.engine.step():
            if time.perf_counter() >= until:
                return True
        return False

    def _deliver(self) -> None:
        """Tells clients what came; boxes whose request has ended are closed."""
        for request, box in list(self.boxes.items()):
            box.result = self.engine.result(request)
            if box.result is not None:
                del self.boxes[request]
            box.let_go_on()  # also where the client emptied the box while the engine was filling it
            if box.pieces or box.result is not None:
                box.news.set()
