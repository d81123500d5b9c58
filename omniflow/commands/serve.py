"""`omniflow serve`: a program over HTTP until it is stopped."""

from __future__ import annotations

import os
import socket
import sys
from dataclasses import replace
from html import escape
from typing import TYPE_CHECKING

from omniflow.commands.compile import schedule_of
from omniflow.commands.launch import read_run_config
from omniflow.commands.selection import Selection
from omniflow.errors import OmniFlowError

if TYPE_CHECKING:
    from omniflow.batcher import Limits
    from omniflow.engine import Engine
    from omniflow_compiler.schedule import Schedule

FAILED = 1
BACKLOG = 512


def serve_spec(
    selection: Selection,
    *,
    host: str,
    port: int,
    running: int | None,
    queued: int | None,
    body_bytes: int,
    grace_s: int,
    profile: str | None,
) -> int:
    """Compiles, takes the address, loads the weights and answers; the exit code."""
    schedule = schedule_of(selection)
    if schedule is None:
        return FAILED
    config = read_run_config(selection, profile)
    try:
        import fastapi  # noqa: F401  asked for before anything is loaded
        import uvicorn  # noqa: F401
    except ImportError:
        return _say("serving needs fastapi and uvicorn: pip install 'omniflow[serve]'")
    from omniflow.batcher import Limits
    from omniflow.commands.threads import choose_threads
    from omniflow.loading import load

    try:
        listener = _listen(host, port)
    except OSError as error:
        return _say(f"cannot listen at {host}:{port}: {_reason(error)}; choose another --port or --host")
    with listener:
        try:
            choose_threads(schedule)
            limits = _limits(Limits(unit_seconds=config.unit_seconds), running, queued)
            engine = load(schedule, limits=limits, profile=profile or config.profile or "serve")
        except OmniFlowError as error:
            return _say(str(error))
        _answer(engine, listener, body_bytes=body_bytes, grace_s=grace_s)
    return 0


def _listen(host: str, port: int) -> socket.socket:
    """A bound socket, so that an address in use is known before weights load. Errors: OSError."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    return socket.create_server((host, port), family=family, backlog=BACKLOG)


def _reason(error: OSError) -> str:
    """Without what sockets add to it. Names that cannot be resolved have a number of their own kind."""
    own = error.strerror if isinstance(error, socket.gaierror) else os.strerror(error.errno or 0)
    return (own or "error").lower()


def _limits(limits: Limits, running: int | None, queued: int | None) -> Limits:
    limits = limits if running is None else replace(limits, running=running)
    return limits if queued is None else replace(limits, queued=queued)


def _answer(engine: Engine, listener: socket.socket, *, body_bytes: int, grace_s: int) -> None:
    """Answers until a signal comes; then what is in work has `grace_s` seconds to end."""
    import uvicorn

    from omniflow.server.app import make_app

    app = make_app(engine, page=_page(engine.schedule), max_body_bytes=body_bytes)
    host, port = listener.getsockname()[:2]
    shown = f"[{host}]" if ":" in host else host
    print(f"omniflow: serving {engine.schedule.program} at http://{shown}:{port} (Ctrl-C ends it)", file=sys.stderr)
    config = uvicorn.Config(app, log_level="warning", access_log=False, timeout_graceful_shutdown=grace_s)
    uvicorn.Server(config).run(sockets=[listener])


def _page(schedule: Schedule) -> str:
    """The program's drawing, where Graphviz is there; else a line that says where to look."""
    from omniflow.viz.build import build_graph
    from omniflow.viz.html import draw_html
    from omniflow.viz.model import DrawError

    try:
        return draw_html(build_graph(schedule))
    except DrawError:
        return f"<!doctype html><title>omniflow</title><p>{escape(schedule.program)}: see <a href='/docs'>/docs</a>."


def _say(line: str) -> int:
    print(f"omniflow: {line}", file=sys.stderr)
    return FAILED
