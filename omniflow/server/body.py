"""Bodies are bounded before they are read."""

from __future__ import annotations

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from omniflow.server.problems import error_body


class BodyLimit:
    """Answers 413 to a request whose body is larger than `max_bytes`, by its header or as it comes."""

    def __init__(self, app: ASGIApp, *, max_bytes: int) -> None:
        self.app = app
        self.max_bytes = max_bytes

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        declared = dict(scope["headers"]).get(b"content-length", b"0")
        if not declared.isdigit() or int(declared) > self.max_bytes:
            await self._refuse(scope, receive, send)
            return
        messages, is_whole = await self._read(receive)
        if not is_whole:
            await self._refuse(scope, receive, send)
            return

        async def replay() -> Message:
            return messages.pop(0) if messages else await receive()

        await self.app(scope, replay, send)

    async def _read(self, receive: Receive) -> tuple[list[Message], bool]:
        """The messages of a whole body; False when it is too large."""
        messages: list[Message] = []
        size = 0
        while True:
            message = await receive()
            messages.append(message)
            size += len(message.get("body", b""))
            if size > self.max_bytes:
                return [], False
            if message["type"] != "http.request" or not message.get("more_body", False):
                return messages, True

    async def _refuse(self, scope: Scope, receive: Receive, send: Send) -> None:
        text = f"the body is larger than {self.max_bytes} bytes"
        await error_body(413, text)(scope, receive, send)
