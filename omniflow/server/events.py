"""One request's events between the engine and a client: taken or refused at once, collected or sent as they come."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

from fastapi import Request

from omniflow.errors import InputError
from omniflow.request import Result, State
from omniflow.stream import Ended, Piece

Event = Piece | Ended
TAKEN_SECONDS = 0.02  # until then the engine has taken the request or refused it
GONE_SECONDS = 0.25  # how often a silent client is looked for


async def begin(events: AsyncIterator[Event], *, streams: bool) -> AsyncIterator[Event]:
    """The same events, once the engine has taken the request. Errors: InputError, BusyError.

    streams: the first event decides the status, so one that is refused at once is an InputError too.
    """
    first = asyncio.ensure_future(_next(events))
    await asyncio.wait({first}, timeout=TAKEN_SECONDS)
    if first.done():
        event = first.result()
        if streams and isinstance(event, Ended) and event.result.state is State.REFUSED:
            raise InputError(event.result.error or "the request was refused")
    return _go_on(first, events)


async def _next(events: AsyncIterator[Event]) -> Event:
    return await anext(events)


async def _go_on(first: asyncio.Future[Event], events: AsyncIterator[Event]) -> AsyncIterator[Event]:
    yield await first
    async for event in events:
        yield event


async def result_of(events: AsyncIterator[Event], request: Request) -> Result | None:
    """The request's result; None when its client has left, which cancels it."""
    work = asyncio.ensure_future(_last(events))
    gone = asyncio.ensure_future(_leaves(request))
    try:
        await asyncio.wait({work, gone}, return_when=asyncio.FIRST_COMPLETED)
    finally:
        gone.cancel()
        if not work.done():
            work.cancel()
    return work.result() if work.done() else None


async def _last(events: AsyncIterator[Event]) -> Result:
    async for event in events:
        if isinstance(event, Ended):
            return event.result
    raise AssertionError("every request ends")


async def _leaves(request: Request) -> None:
    while not await request.is_disconnected():
        await asyncio.sleep(GONE_SECONDS)


def sent(name: str, body: Any) -> bytes:
    """A server-sent event."""
    return f"event: {name}\ndata: {json.dumps(body, ensure_ascii=False)}\n\n".encode()
