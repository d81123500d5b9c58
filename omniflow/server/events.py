"""One request's events between the engine and a client: taken or refused at once, collected or sent as they come."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Coroutine, Sequence
from typing import Any, TypeVar

from fastapi import Request

from omniflow.errors import InputError
from omniflow.request import Result, State
from omniflow.server.problems import Left
from omniflow.stream import Ended, Piece

Event = Piece | Ended
T = TypeVar("T")
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


async def result_of(events: AsyncIterator[Event], request: Request) -> Result:
    """The request's result. Errors: InputError, BusyError; Left, which cancels it."""
    return await unless_left(_last(events), request)


async def results_of(streams: Sequence[AsyncIterator[Event]], request: Request) -> list[Result]:
    """The results of requests that run together. Errors: InputError, BusyError, Left, each of which cancels all."""
    return await unless_left(_all(streams), request)


async def unless_left(work: Coroutine[Any, Any, T], request: Request) -> T:
    """What the work comes to. Errors: its own; Left once the client has gone, which ends the work."""
    task = asyncio.ensure_future(work)
    gone = asyncio.ensure_future(_leaves(request))
    try:
        await asyncio.wait({task, gone}, return_when=asyncio.FIRST_COMPLETED)
    finally:
        gone.cancel()
        task.cancel()  # one that is done stays so
    if not task.done():
        raise Left
    return task.result()


async def _all(streams: Sequence[AsyncIterator[Event]]) -> list[Result]:
    tasks = [asyncio.ensure_future(_last(events)) for events in streams]
    try:
        return await asyncio.gather(*tasks)
    finally:
        for task in tasks:
            task.cancel()


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
