"""Sound on its way to a client while it is made: plain 16-bit PCM, or pieces of it in server-sent events."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator

from fastapi import Request
from fastapi.responses import StreamingResponse
from starlette.types import Send

from omniflow.request import State
from omniflow.server.events import Event, sent, unless_left
from omniflow.server.problems import Undone, done, error_in
from omniflow.server.wire import base64_of, channels_of, pcm
from omniflow.stream import Piece
from omniflow_compiler.schedule import Output

LOG = logging.getLogger("omniflow.server")


class RawResponse(StreamingResponse):
    """Bytes without a place for words: what fails on the way breaks the connection, so that its client can tell."""

    async def stream_response(self, send: Send) -> None:
        try:
            await super().stream_response(send)
        except Undone as undone:
            LOG.error("a sound was cut short: %s", undone.message)


async def raw_sound(events: AsyncIterator[Event], sound: Output, request: Request) -> RawResponse:
    """A response that begins with the first piece: until then a request that fails has a status of its own.

    Errors: InputError, BusyError, Undone; Left, which cancels the request.
    """
    first = await unless_left(_first(events), request)
    channels = channels_of(first.data) if isinstance(first, Piece) else 1
    kind = f"audio/pcm; rate={round(sound.type.rate_hz or 0)}; channels={channels}"
    return RawResponse(_samples(first, events), media_type=kind)


async def _first(events: AsyncIterator[Event]) -> Event:
    """The first piece with sound in it, or the end of a request that gave none. Errors: Undone."""
    async for event in events:
        if not isinstance(event, Piece):
            done(event.result)
            return event
        if event.data is not None:
            return event
    raise AssertionError("every request ends")


async def _samples(first: Event, events: AsyncIterator[Event]) -> AsyncIterator[bytes]:
    """Errors: Undone."""
    if isinstance(first, Piece):
        yield pcm(first.data)
    async for event in events:
        if not isinstance(event, Piece):
            done(event.result)
        elif event.data is not None:
            yield pcm(event.data)


async def deltas_of(events: AsyncIterator[Event], sound: Output) -> AsyncIterator[bytes]:
    """`speech.audio.delta` with PCM, its rate and its channels, at last `speech.audio.done` or an `error`."""
    rate = round(sound.type.rate_hz or 0)
    async for event in events:
        if isinstance(event, Piece):
            if event.data is not None:
                body = {"audio": base64_of(pcm(event.data)), "rate_hz": rate, "channels": channels_of(event.data)}
                yield _event("speech.audio.delta", body)
        elif event.result.state is State.DONE:
            yield _event("speech.audio.done", {})
        else:
            yield _event("error", error_in(event.result))


def _event(name: str, body: dict[str, object]) -> bytes:
    return sent(name, {"type": name, **body})
