"""The web application of one engine. `make_app` is the list of what it serves."""

from __future__ import annotations

from fastapi import FastAPI
from fastapi.responses import HTMLResponse, PlainTextResponse

from omniflow.engine import Engine
from omniflow.server.body import BodyLimit
from omniflow.server.chat import add_chat
from omniflow.server.images import add_images
from omniflow.server.problems import add_problems
from omniflow.server.requests import add_requests
from omniflow.server.sessions import add_sessions
from omniflow.server.speech import add_speech
from omniflow_compiler.version import VERSION

MAX_BODY_BYTES = 64 << 20


def make_app(engine: Engine, *, page: str = "", max_body_bytes: int = MAX_BODY_BYTES) -> FastAPI:
    """An application that runs requests of the engine's program. It belongs to one event loop.

    page: HTML shown at `/`, a drawing of the program. max_body_bytes: larger bodies are refused with 413.
    """
    schedule = engine.schedule
    app = FastAPI(title=f"omniflow: {schedule.program}", version=VERSION)
    add_problems(app)
    add_requests(app, engine)
    add_sessions(app, engine)
    add_chat(app, engine)
    add_speech(app, engine)
    add_images(app, engine)

    @app.get("/health", response_class=PlainTextResponse)
    async def health() -> str:
        """Answers once the weights are loaded."""
        return "ok\n"

    @app.get("/metrics", response_class=PlainTextResponse)
    async def metrics() -> str:
        """Counters in the text format of Prometheus."""
        return engine.metrics.render(engine)

    @app.get("/", response_class=HTMLResponse, include_in_schema=False)
    async def drawing() -> str:
        return page

    app.add_middleware(BodyLimit, max_bytes=max_body_bytes)
    return app
