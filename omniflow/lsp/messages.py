"""Whether a message is one of the protocol, and what is answered to one that is not (JSON-RPC 2.0, LSP 3.17)."""

from __future__ import annotations

import json
from dataclasses import dataclass

import attrs
import cattrs
from lsprotocol import converters, types

MAX_DEPTH = 100  # of lists and objects in a message

Message = dict[str, object]

_CONVERTER = converters.get_converter()
_INVALID = types.ErrorCodes.InvalidRequest


class MessageError(Exception):
    """A message that cannot be handled: a code of the protocol and, where it is known, the request's id."""

    def __init__(self, code: int, why: str, *, id: int | str | None = None, is_answered: bool = True) -> None:
        super().__init__(why)
        self.code = code
        self.id = id
        self.is_answered = is_answered  # a notification never is

    def answer(self) -> Message:
        """The response that says so."""
        return {"jsonrpc": "2.0", "id": self.id, "error": {"code": int(self.code), "message": str(self)}}


@dataclass(slots=True)
class Conversation:
    """How far a conversation is: `initialize` comes first and once, nothing but `exit` comes after `shutdown`."""

    is_begun: bool = False
    is_ended: bool = False

    def read(self, body: bytes) -> Message:
        """The message in a body, in a form that the server can handle; raises `MessageError`."""
        message = _parsed(body)
        id, method = message.get("id"), message.get("method")
        if message.get("jsonrpc") != "2.0":
            raise MessageError(_INVALID, "a message says `jsonrpc`: `2.0`")
        if isinstance(id, bool) or not isinstance(id, int | str | None):
            raise MessageError(_INVALID, "`id` is a number or a text")
        if method is None and ("result" in message or "error" in message):
            raise MessageError(_INVALID, "nothing was asked", is_answered=False)  # this server asks nothing
        if not isinstance(method, str):
            raise MessageError(_INVALID, "a message has a `method`", id=id)
        message = _checked(message, method, id)
        self._follow(method, id, is_request="id" in message)
        return message

    def _follow(self, method: str, id: int | str | None, *, is_request: bool) -> None:
        if method == types.EXIT:
            return
        if self.is_ended or (self.is_begun and method == types.INITIALIZE):
            why = f"`{method[:80]}` after `{types.SHUTDOWN if self.is_ended else types.INITIALIZE}`"
            raise MessageError(_INVALID, why, id=id, is_answered=is_request)
        if not self.is_begun and method != types.INITIALIZE:
            why = f"`{method[:80]}` before `{types.INITIALIZE}`"
            raise MessageError(types.ErrorCodes.ServerNotInitialized, why, id=id, is_answered=is_request)
        self.is_begun = True
        self.is_ended = method == types.SHUTDOWN


def _parsed(body: bytes) -> Message:
    try:
        message = json.loads(body)
    except RecursionError:
        raise MessageError(_INVALID, f"the message is nested deeper than {MAX_DEPTH} levels") from None
    except ValueError as error:
        raise MessageError(types.ErrorCodes.ParseError, f"the message is no JSON: {error}") from None
    if not isinstance(message, dict):
        raise MessageError(_INVALID, "a message is one JSON object")
    if _is_deep(message):
        raise MessageError(_INVALID, f"the message is nested deeper than {MAX_DEPTH} levels")
    return message


def _is_deep(message: Message) -> bool:
    level: list[object] = [message]
    for _ in range(MAX_DEPTH):
        inside: list[object] = []
        for part in level:
            inside += part.values() if isinstance(part, dict) else part if isinstance(part, list) else ()
        level = inside
    return any(isinstance(part, dict | list) for part in level)


def _checked(message: Message, method: str, id: int | str | None) -> Message:
    """The message, when the protocol has its method and the params are that method's."""
    is_request = "id" in message
    if method not in types.METHOD_TO_TYPES:
        why = f"there is no method `{method[:80]}`"
        raise MessageError(types.ErrorCodes.MethodNotFound, why, id=id, is_answered=is_request)
    kind = types.METHOD_TO_TYPES[method][0]
    if is_request != ("id" in attrs.fields_dict(kind)):
        why = (
            f"`{method}` is a notification and has no `id`"
            if is_request
            else f"`{method}` is a request and has an `id`"
        )
        raise MessageError(_INVALID, why, id=id, is_answered=is_request)
    try:
        _CONVERTER.structure(message, kind)
    except cattrs.BaseValidationError as error:
        why = "; ".join(cattrs.transform_error(error))[:500]
        raise MessageError(types.ErrorCodes.InvalidParams, why, id=id, is_answered=is_request) from None
    return message
