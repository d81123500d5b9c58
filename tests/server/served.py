"""A program served at a free port of this machine, and a client of the standard library."""

from __future__ import annotations

import http.client
import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import uvicorn

from omniflow import Engine
from omniflow.server.app import make_app


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """A response, read to its end."""

    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def error(self) -> str:
        return str(self.json["error"]["message"])

    @property
    def events(self) -> list[tuple[str, Any]]:
        """Server-sent events by name; chunks of chats have none, and their last is no JSON."""
        found = []
        for block in self.body.decode().split("\n\n")[:-1]:
            fields = dict(line.split(": ", 1) for line in block.split("\n"))
            data = fields["data"]
            found.append((fields.get("event", ""), data if data == "[DONE]" else json.loads(data)))
        return found


@dataclass(frozen=True, slots=True, kw_only=True)
class Served:
    """Where an engine is served."""

    engine: Engine
    port: int

    def connect(self) -> http.client.HTTPConnection:
        return http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)

    def get(self, path: str) -> Answer:
        return self.send("GET", path, None)

    def post(self, path: str, body: Any) -> Answer:
        return self.send("POST", path, body if isinstance(body, bytes) else json.dumps(body).encode())

    def send(self, method: str, path: str, body: bytes | None) -> Answer:
        connection = self.connect()
        connection.request(method, path, body, {"content-type": "application/json"})
        response = connection.getresponse()
        answer = Answer(status=response.status, headers=dict(response.getheaders()), body=response.read())
        connection.close()
        return answer

    def wait_until_idle(self, seconds: float = 20.0) -> None:
        until = time.monotonic() + seconds
        while not self.engine.is_idle or self.engine.live:
            assert time.monotonic() < until, "the engine still works"
            time.sleep(0.01)


@contextmanager
def serving(engine: Engine, *, max_body_bytes: int = 1 << 20) -> Iterator[Served]:
    app = make_app(engine, page="<p>drawing", max_body_bytes=max_body_bytes)
    server = uvicorn.Server(
        uvicorn.Config(app, port=0, log_level="critical", access_log=False, timeout_graceful_shutdown=1)
    )
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    until = time.monotonic() + 20
    while not server.started:
        assert time.monotonic() < until, "the server does not start"
        time.sleep(0.01)
    port = server.servers[0].sockets[0].getsockname()[1]
    try:
        yield Served(engine=engine, port=port)
    finally:
        server.should_exit = True
        thread.join(timeout=20)
        assert not thread.is_alive()
