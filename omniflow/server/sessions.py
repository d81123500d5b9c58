"""`/v1/sessions`: conversations whose later turns go on from what the engine remembers."""

from __future__ import annotations

from fastapi import FastAPI
from pydantic import BaseModel

from omniflow.engine import Engine
from omniflow.errors import InputError
from omniflow.server.problems import Gone


class Opened(BaseModel):
    """A session's id, for the `session` of its requests."""

    id: int


def add_sessions(app: FastAPI, engine: Engine) -> None:
    """Adds opening and closing."""

    @app.post("/v1/sessions", status_code=201)
    async def open_session() -> Opened:
        """Opens a session. 422 when no loop of the program keeps them."""
        return Opened(id=engine.session())

    @app.delete("/v1/sessions/{session_id}", status_code=204)
    async def close_session(session_id: int) -> None:
        """Ends a session and cancels its turns."""
        try:
            engine.close_session(session_id)
        except InputError as error:
            raise Gone(str(error)) from None
