"""`POST /v1/images/generations` in the form of OpenAI's API, for programs that turn a prompt into a picture.

Source of the form: the API reference of OpenAI, "Create image", with `response_format: b64_json`.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from fastapi import FastAPI, Request
from pydantic import BaseModel, ConfigDict, Field

from omniflow.artefacts import png
from omniflow.engine import Engine
from omniflow.errors import InputError
from omniflow.request import Result
from omniflow.server.events import results_of
from omniflow.server.forms import check_model, filled, image_of, input_of, needs_more
from omniflow.server.problems import Gone, done
from omniflow.server.requests import Ask, start
from omniflow.server.wire import base64_of
from omniflow_compiler.schedule import Input, Output, Schedule

MOST = 10  # pictures of one form
OWN_SIZE = "auto"


class Pictures(BaseModel):
    """What is to be painted. What is not listed here is refused, not passed over."""

    model_config = ConfigDict(extra="forbid")

    prompt: str
    model: str | None = None
    n: int = Field(default=1, ge=1, le=MOST, description="So many pictures, with the seeds seed, seed + 1, ...")
    size: str = Field(default=OWN_SIZE, pattern=r"^([0-9]{1,5}x[0-9]{1,5}|auto)$", description="WIDTHxHEIGHT.")
    response_format: Literal["b64_json", "url"] = Field(default="b64_json", description="PNG in base64 alone.")
    seed: int = Field(default=0, ge=0, le=2**63 - MOST)
    user: str | None = Field(default=None, description="Taken and not used.")


@dataclass(frozen=True, slots=True, kw_only=True)
class Painting:
    """Where the fields of the form go."""

    prompt: Input
    height: Input | None
    width: Input | None
    image: Output


def painting_of(schedule: Schedule) -> Painting | None:
    """How the program paints; None for one that takes more than a prompt, or gives no picture."""
    prompt, image = input_of(schedule, "text", ("prompt",)), image_of(schedule)
    if prompt is None or image is None or needs_more(schedule, prompt):
        return None
    height, width = (input_of(schedule, "scalar", (name,)) for name in ("height", "width"))
    return Painting(prompt=prompt, height=height, width=width, image=image)


def add_images(app: FastAPI, engine: Engine) -> None:
    """Adds pictures."""
    painting = painting_of(engine.schedule)
    name = engine.schedule.program

    @app.post("/v1/images/generations")
    async def generate(form: Pictures, request: Request) -> dict[str, Any]:
        """Paints a prompt, `n` times in one batch. A client that leaves cancels all of them."""
        if painting is None:
            raise Gone(f"{name} paints no pictures: it needs an input `prompt` and an image; use /v1/requests")
        check_model(form.model, name)
        asks = asks_of(painting, form)
        results = await results_of([start(engine, ask, ask.inputs) for ask in asks], request)
        data = await asyncio.to_thread(_files, [done(result) for result in results], painting.image.name)
        return {"created": int(time.time()), "data": data}


def asks_of(painting: Painting, form: Pictures) -> list[Ask]:
    """The requests that a form is, one for each picture. Errors: InputError."""
    if form.response_format == "url":
        raise InputError("response_format: pictures come as b64_json; nothing is kept that a url could lead to")
    width, _, height = form.size.partition("x")
    fixed = "size: this program paints in one size; leave it out, or say auto"
    inputs = {painting.prompt.name: form.prompt}
    if form.size != OWN_SIZE:
        inputs |= filled(painting.width, int(width), otherwise=fixed)
        inputs |= filled(painting.height, int(height), otherwise=fixed)
    return [Ask(inputs=inputs, seed=form.seed + i, outputs=[painting.image.name]) for i in range(form.n)]


def _files(results: Sequence[Result], output: str) -> list[dict[str, str]]:
    return [{"b64_json": base64_of(png(result.outputs[output]))} for result in results]
