"""`POST /v1/chat/completions` in the form of OpenAI's API, for programs that turn a prompt into text and speech.

Source of the form: the API reference of OpenAI, "Chat Completions", with `modalities` and `audio`.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from typing import Any, Literal

from fastapi import FastAPI, Request, Response
from fastapi.responses import JSONResponse, StreamingResponse
from pydantic import BaseModel, ConfigDict, Field

from omniflow.engine import Engine
from omniflow.errors import InputError
from omniflow.server.events import Event, begin, result_of
from omniflow.server.forms import check_model, filled
from omniflow.server.problems import Gone, done
from omniflow.server.replies import chunks_of, completion_of
from omniflow.server.requests import EVENTS, Ask, start
from omniflow.server.turns import Turns, turns_of

SAMPLING = ("temperature", "top_p", "repetition_penalty")


class Turn(BaseModel):
    """A message; its content is a text or a list of parts."""

    role: Literal["system", "user", "assistant"]
    content: str | list[dict[str, Any]]


class Voice(BaseModel):
    """How speech is wanted."""

    voice: str | None = None
    format: Literal["wav", "pcm16"] | None = Field(default=None, description="pcm16 where it streams, else wav.")


class StreamOptions(BaseModel):
    """What else a stream tells."""

    include_usage: bool = Field(default=True, description="Taken and not used: the last chunk always has it.")


class Chat(BaseModel):
    """A conversation to be gone on with. What is not listed here is refused, not passed over."""

    model_config = ConfigDict(extra="forbid")

    messages: list[Turn]
    model: str | None = None
    modalities: list[Literal["text", "audio"]] = ["text"]
    audio: Voice = Voice()
    stream: bool = False
    stream_options: StreamOptions = StreamOptions()
    temperature: float | None = Field(default=None, ge=0)
    top_p: float | None = Field(default=None, gt=0, le=1)
    repetition_penalty: float | None = Field(default=None, gt=0)
    max_tokens: int | None = Field(default=None, gt=0)
    max_completion_tokens: int | None = Field(default=None, gt=0)
    seed: int = Field(default=0, ge=0, lt=2**63)
    n: Literal[1] = 1
    user: str | None = Field(default=None, description="Taken and not used.")


def add_chat(app: FastAPI, engine: Engine) -> None:
    """Adds the list of models (one) and chats."""
    turns = turns_of(engine.schedule)
    name = engine.schedule.program

    @app.get("/v1/models")
    async def models() -> dict[str, Any]:
        """The program under its id."""
        return {"object": "list", "data": [{"id": name, "object": "model", "created": 0, "owned_by": "omniflow"}]}

    @app.post("/v1/chat/completions", response_model=None)
    async def chat(form: Chat, request: Request) -> Response:
        """Answers a conversation in text and, where `modalities` asks for it, in speech."""
        if turns is None:
            raise Gone(f"{name} answers no chats: it needs an input `prompt` and an output of text; use /v1/requests")
        check_model(form.model, name)
        asked = await asyncio.to_thread(ask_of, turns, form)
        number, created = f"chatcmpl-{engine.num_submitted}", int(time.time())
        events = await begin(start(engine, asked, asked.inputs), streams=form.stream)
        if form.stream:
            chunks = _stream(events, turns, form, head={"id": number, "created": created, "model": name})
            return StreamingResponse(chunks, media_type=EVENTS)
        result = done(await result_of(events, request))
        head = {"id": number, "object": "chat.completion", "created": created, "model": name}
        return JSONResponse({**head, **completion_of(turns, result, speaks=_speaks(form))})


def ask_of(turns: Turns, form: Chat) -> Ask:
    """The request that a chat is. Errors: InputError."""
    if _speaks(form) and turns.audio is None:
        raise InputError("modalities: this program gives no audio")
    due = "pcm16" if form.stream else "wav"
    if form.audio.format not in (None, due):
        raise InputError(f"audio.format: speech comes as {due} here: pcm16 where it streams, wav where it does not")
    inputs = turns.inputs_of([turn.model_dump() for turn in form.messages])
    inputs |= filled(turns.voice, form.audio.voice, otherwise="audio.voice: this program has one voice")
    params: dict[str, Any] = {}
    for name, value in form.model_dump(include=set(SAMPLING), exclude_none=True).items():
        params |= turns.param(name, value)
    most = form.max_completion_tokens or form.max_tokens
    if most is not None:
        params |= turns.param("max_tokens", most)
    wanted = [turns.text.name, *([turns.audio.name] if _speaks(form) and turns.audio is not None else [])]
    return Ask(inputs=inputs, params=params, seed=form.seed, stream=form.stream, outputs=wanted)


def _speaks(form: Chat) -> bool:
    return "audio" in form.modalities


async def _stream(
    events: AsyncIterator[Event], turns: Turns, form: Chat, *, head: dict[str, Any]
) -> AsyncIterator[bytes]:
    chunks = chunks_of(events, turns, speaks=_speaks(form), head={**head, "object": "chat.completion.chunk"})
    async for chunk in chunks:
        yield chunk
    yield b"data: [DONE]\n\n"
