"""What an editor sends, a message at a time: only what the server can handle is passed on to it."""

from __future__ import annotations

import io
import json
import re
from typing import BinaryIO

from lsprotocol.types import ErrorCodes

from omniflow.lsp.messages import Conversation, Message, MessageError
from omniflow_compiler.quantities import show_bytes

MAX_MESSAGE_BYTES = 128 * 1024 * 1024  # the largest spec, with every second byte escaped
MAX_LINE_BYTES = 4096
MAX_LINES = 32

_HEADER = re.compile(rb"([\x21-\x39\x3b-\x7e]+):[ \t]*(.*?)[ \t]*\r?\n")
_LENGTH = re.compile(rb"[0-9]{1,18}")


class WireError(Exception):
    """It cannot be told any more where the next message begins."""


class Wire:
    """Reads like the stream of sound messages. To the others it answers itself; one that is not whole ends it.

    `fault` says why it ended, when it did not end between two messages.
    """

    def __init__(self, source: BinaryIO, sink: BinaryIO) -> None:
        self.source = source
        self.sink = sink
        self.fault: str | None = None
        self._conversation = Conversation()
        self._message = io.BytesIO()

    def readline(self) -> bytes:
        """The next line of a message's header; empty at the end."""
        if self._message.tell() == len(self._message.getbuffer()):
            self._message = io.BytesIO(self._next())
        return self._message.readline()

    def read(self, size: int) -> bytes:
        """The body of the message whose header was read."""
        return self._message.read(size)

    def _next(self) -> bytes:
        while self.fault is None:
            try:
                body = self._body()
                return b"" if body is None else _packed(self._conversation.read(body))
            except MessageError as error:
                self._answer(error)
            except WireError as error:
                self.fault = str(error)
        return b""

    def _body(self) -> bytes | None:
        """The next message's bytes; None at the end."""
        length = self._length()
        if length is None:
            return None
        if length > MAX_MESSAGE_BYTES:
            why = f"a message of {show_bytes(length)}, the limit is {show_bytes(MAX_MESSAGE_BYTES)}"
            self._answer(MessageError(ErrorCodes.InvalidRequest, why))
            raise WireError(why)
        body = self.source.read(length)
        if len(body) < length:
            raise WireError(f"the input ended after {len(body)} of a message's {length} bytes")
        return body

    def _length(self) -> int | None:
        """What a header says of its message's length in bytes; None at the end."""
        length: int | None = None
        for number in range(MAX_LINES):
            line = self.source.readline(MAX_LINE_BYTES)
            if not line and not number:
                return None
            if line in (b"\r\n", b"\n"):
                if length is None:
                    raise WireError("a header has no `Content-Length`")
                return length
            name, value = _split(line)
            if name == b"content-length":
                if _LENGTH.fullmatch(value) is None:
                    raise WireError(f"`{_shown(value)}` is no length in bytes")
                length = int(value)
        raise WireError(f"a header has more than {MAX_LINES} lines")

    def _answer(self, error: MessageError) -> None:
        if error.is_answered:
            self.sink.write(_packed(error.answer()))
            self.sink.flush()


def _packed(message: Message) -> bytes:
    body = json.dumps(message).encode()
    return b"Content-Length: %d\r\n\r\n%s" % (len(body), body)


def _split(line: bytes) -> tuple[bytes, bytes]:
    """The name, in small letters, and the value of a line of a header."""
    if not line:
        raise WireError("the input ended inside a header")
    match = _HEADER.fullmatch(line)
    if match is None:
        raise WireError(f"`{_shown(line)}` is no line of a header such as `Content-Length: 120`")
    return match[1].lower(), match[2]


def _shown(text: bytes) -> str:
    return repr(text[:40].strip())[2:-1]
