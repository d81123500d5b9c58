"""`POST /v1/requests`: any program's inputs in, its outputs out, at once or as they come."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from typing import Any

from fastapi import FastAPI, Request, Response
from fastapi.responses import JSONResponse, StreamingResponse
from pydantic import BaseModel, ConfigDict, Field

from omniflow.engine import Engine
from omniflow.params import known_params
from omniflow.request import Result
from omniflow.server.events import Event, begin, result_of, sent
from omniflow.server.problems import STATUS
from omniflow.server.wire import read_values, write_piece, write_value
from omniflow.stream import Piece
from omniflow_compiler.schedule import Schedule

EVENTS = "text/event-stream"


class Ask(BaseModel):
    """A request. Inputs and params are those of the program: `GET /v1/program` lists them."""

    model_config = ConfigDict(extra="forbid")

    inputs: dict[str, Any] = Field(default={}, description="By name; a file is {base64, name}.")
    params: dict[str, Any] = Field(default={}, description="node.attribute to value, e.g. think.temperature.")
    seed: int = Field(default=0, ge=0, lt=2**63)
    deadline_s: float | None = Field(default=None, gt=0, allow_inf_nan=False, description="Cancelled after this long.")
    priority: int = Field(default=0, ge=-100, le=100, description="Higher ones are let in first.")
    outputs: list[str] | None = Field(default=None, description="Those wanted; by default all.")
    session: int | None = Field(default=None, description="From POST /v1/sessions.")
    stream: bool = Field(default=False, description="Server-sent events: `piece` and, last, `end`.")


def add_requests(app: FastAPI, engine: Engine) -> None:
    """Adds requests and the description of what they take."""

    @app.post("/v1/requests", response_model=None)
    async def run(ask: Ask, request: Request) -> Response:
        """Runs one request. A client that leaves cancels it."""
        values = await asyncio.to_thread(read_values, engine.schedule, ask.inputs)
        events = await begin(start(engine, ask, values), streams=ask.stream)
        if ask.stream:
            return StreamingResponse(_stream(events, engine.schedule), media_type=EVENTS)
        result = await result_of(events, request)
        return JSONResponse(body_of(result, engine.schedule), status_code=STATUS[result.state])

    @app.get("/v1/program")
    async def program() -> dict[str, Any]:
        """What the program takes and gives."""
        return describe(engine.schedule)


def start(engine: Engine, ask: Ask, values: Mapping[str, Any]) -> AsyncIterator[Event]:
    """The request's events; it is submitted when the first is asked for."""
    return engine.stream(
        values,
        seed=ask.seed,
        params=ask.params,
        deadline=ask.deadline_s,
        priority=ask.priority,
        session=ask.session,
        outputs=ask.outputs,
        keep=not ask.stream,
    )


async def _stream(events: AsyncIterator[Event], schedule: Schedule) -> AsyncIterator[bytes]:
    outputs = {spec.name: spec for spec in schedule.outputs}
    async for event in events:
        if isinstance(event, Piece):
            yield sent("piece", write_piece(outputs[event.output], event))
        else:
            yield sent("end", _end(event.result))


def body_of(result: Result, schedule: Schedule) -> dict[str, Any]:
    """A result as JSON; of a request that is not done the outputs are what came of them."""
    came = [spec for spec in schedule.outputs if _came(spec.name, result)]
    outputs = {spec.name: write_value(spec, result.outputs[spec.name]) for spec in came}
    return {**_end(result), "outputs": outputs}


def _came(output: str, result: Result) -> bool:
    known = result.record["outputs"].get(output)
    return known is not None and bool(known["whole"] or known["elements"])


def _end(result: Result) -> dict[str, Any]:
    error = None if result.error is None else {"message": result.error, "type": str(result.state)}
    return {"id": result.id, "state": str(result.state), "error": error, "record": result.record}


def describe(schedule: Schedule) -> dict[str, Any]:
    """The program's inputs, outputs and the params that a request may set."""
    return {
        "program": schedule.program,
        "schedule": schedule.content_hash,
        "inputs": [
            {
                "name": spec.name,
                "type": spec.type.text,
                "required": spec.required,
                "default": spec.default,
                "min": spec.least,
                "max": spec.most,
            }
            for spec in schedule.inputs
        ],
        "outputs": [{"name": spec.name, "type": spec.type.text, "streams": spec.streams} for spec in schedule.outputs],
        "params": [
            {"name": key, "type": attribute.type, "value": node.attributes.get(name), "help": attribute.doc}
            for key, (node, name, attribute) in known_params(schedule).items()
        ],
    }
