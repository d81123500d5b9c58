"""`POST /v1/audio/speech` in the form of OpenAI's API, for programs that turn a text into sound.

Source of the form: the API reference of OpenAI, "Create speech", with `stream_format`.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Any, Literal

from fastapi import FastAPI, Request, Response
from fastapi.responses import StreamingResponse
from pydantic import BaseModel, ConfigDict, Field

from omniflow.artefacts import wav
from omniflow.engine import Engine
from omniflow.errors import InputError
from omniflow.server.events import begin, result_of
from omniflow.server.forms import VOICE_NAMES, check_model, filled, input_of, needs_more, sound_of
from omniflow.server.problems import Gone, done
from omniflow.server.requests import EVENTS, Ask, start
from omniflow.server.sounds import deltas_of, raw_sound
from omniflow_compiler.schedule import Input, Output, Schedule

OWN_VOICE = "default"  # the form wants a voice; this one is there without being named


class Speech(BaseModel):
    """A text to be said, or played. What is not listed here is refused, not passed over."""

    model_config = ConfigDict(extra="forbid")

    input: str
    model: str | None = None
    voice: str | None = Field(default=None, description="`default` is the one that the program has by itself.")
    response_format: Literal["wav", "pcm"] | None = Field(default=None, description="pcm in events, else wav.")
    stream_format: Literal["audio", "sse"] = "audio"
    speed: float | None = Field(default=None, gt=0, allow_inf_nan=False)
    instructions: str | None = None
    seed: int = Field(default=0, ge=0, lt=2**63)


@dataclass(frozen=True, slots=True, kw_only=True)
class Speaking:
    """Where the fields of the form go."""

    text: Input
    voice: Input | None
    speed: Input | None
    instructions: Input | None
    sound: Output


def speaking_of(schedule: Schedule) -> Speaking | None:
    """How the program speaks; None for one that takes more than a text, or gives no sound."""
    text, sound = input_of(schedule, "text", ("prompt", "text")), sound_of(schedule)
    if text is None or sound is None or needs_more(schedule, text):
        return None
    return Speaking(
        text=text,
        voice=input_of(schedule, "text", VOICE_NAMES),
        speed=input_of(schedule, "scalar", ("speed",)),
        instructions=input_of(schedule, "text", ("instructions",)),
        sound=sound,
    )


def add_speech(app: FastAPI, engine: Engine) -> None:
    """Adds speech."""
    speaking = speaking_of(engine.schedule)
    name = engine.schedule.program

    @app.post("/v1/audio/speech", response_model=None)
    async def speech(form: Speech, request: Request) -> Response:
        """Says a text: WAV, 16-bit PCM as it is made, or PCM in server-sent events."""
        if speaking is None:
            raise Gone(f"{name} speaks no texts: it needs an input `prompt` or `text` and a sound; use /v1/requests")
        check_model(form.model, name)
        asked = ask_of(speaking, form)
        events = start(engine, asked, asked.inputs)
        if form.stream_format == "sse":
            begun = await begin(events, streams=True)
            return StreamingResponse(deltas_of(begun, speaking.sound), media_type=EVENTS)
        if form.response_format == "pcm":
            return await raw_sound(events, speaking.sound, request)
        result = done(await result_of(events, request))
        samples = result.outputs[speaking.sound.name]
        data = await asyncio.to_thread(wav, samples, round(speaking.sound.type.rate_hz or 0))
        return Response(data, media_type="audio/wav")


def ask_of(speaking: Speaking, form: Speech) -> Ask:
    """The request that a speech is. Errors: InputError."""
    in_events = form.stream_format == "sse"
    if in_events and form.response_format == "wav":
        raise InputError("response_format: events carry pcm; ask for pcm or leave it out")
    inputs: dict[str, Any] = {
        speaking.text.name: form.input,
        **filled(speaking.voice, _voice(form), otherwise="voice: this program has one voice, which is `default`"),
        **filled(speaking.speed, _speed(speaking, form), otherwise="speed: this program has one speed, which is 1"),
        **filled(speaking.instructions, form.instructions, otherwise="instructions: this program has no place for any"),
    }
    streams = in_events or form.response_format == "pcm"
    return Ask(inputs=inputs, seed=form.seed, stream=streams, outputs=[speaking.sound.name])


def _voice(form: Speech) -> str | None:
    return None if form.voice == OWN_VOICE else form.voice


def _speed(speaking: Speaking, form: Speech) -> float | None:
    return None if speaking.speed is None and form.speed == 1 else form.speed
