"""Ops between text and tokens."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch

from omniflow.loops.base import Emit
from omniflow.ops.base import Call
from omniflow.roles import Message

HALF = "\ufffd"  # what a decoder writes for bytes that are not a character (yet)


def tokenize(call: Call) -> Iterator[Emit]:
    """`text` -> `tokens`, without a template."""
    yield Emit("tokens", torch.tensor(call.component.encode(call.values["text"]), dtype=torch.int64))


def chat_tokenize(call: Call) -> Iterator[Emit]:
    """`messages` (a text is one user turn; json is a list of {role, content}) -> `tokens` of the rendered chat.

    Pictures and sounds stand before the last text of a user, a mark each. In a session's later turns: of what comes
    behind the reply before. Errors: ValueError where something could be shown or played and nothing is said either.
    """
    system = None if call.goes_on else call.params.get("system")
    said, pictures, sounds = (call.values.get(port) for port in ("messages", "pictures", "sounds"))
    if said == "" and not pictures and not sounds and (pictures is not None or sounds is not None):
        raise ValueError("nothing is said, shown or played: give a prompt, a sound or a picture")
    marks = [{"type": "image"}] * len(pictures or ()) + [{"type": "audio"}] * len(sounds or ())
    messages = messages_of(with_marks(said, marks), system)
    ids = call.component.encode_turn(messages) if call.goes_on else call.component.encode_chat(messages)
    yield Emit("tokens", torch.tensor(ids, dtype=torch.int64))


def with_marks(value: Any, marks: Sequence[Message]) -> Any:
    """Messages whose last text of a user has the marks before it; content that is parts already has its own."""
    messages = [{"role": "user", "content": value}] if isinstance(value, str) else value
    if not marks or not isinstance(messages, list):
        return messages
    last = max((i for i, message in enumerate(messages) if _is_user_text(message)), default=None)
    if last is None:
        return messages
    text = messages[last]["content"]
    parts = [*marks, *([{"type": "text", "text": text}] if text else [])]
    return [*messages[:last], {**messages[last], "content": parts}, *messages[last + 1 :]]


def _is_user_text(message: Any) -> bool:
    return isinstance(message, dict) and message.get("role") == "user" and isinstance(message.get("content"), str)


def messages_of(value: Any, system: str | None = None) -> list[dict[str, Any]]:
    """Chat messages of a text or of a list of messages. Errors: ValueError naming the message that is not one."""
    messages = [{"role": "user", "content": value}] if isinstance(value, str) else value
    if not isinstance(messages, list) or not messages:
        raise ValueError("messages must be a text or a non-empty list of {role, content}")
    for i, message in enumerate(messages):
        if not isinstance(message, dict) or not {"role", "content"} <= message.keys():
            raise ValueError(f"message {i} needs role and content: {json.dumps(message, default=str)[:80]}")
    if system and messages[0]["role"] != "system":
        return [{"role": "system", "content": system}, *messages]
    return messages


@dataclass(slots=True)
class Decoded:
    """Ids so far; those before `start` matter no more to what follows, those before `stop` were emitted."""

    ids: list[int] = field(default_factory=list)
    start: int = 0
    stop: int = 0
    length: int = 0  # characters that left


def detokenize(call: Call) -> Iterator[Emit]:
    """`tokens` ~> `text`: pieces of whole characters whose concatenation is the decoding of all ids."""
    memory: Decoded = call.memory
    for window in call.windows.values():
        memory.ids.extend(window.data.tolist())
    decode = call.component.decode
    if call.is_end:
        rest = decode(memory.ids)[memory.length :]
        if rest:
            yield Emit("text", rest)
        return
    before = decode(memory.ids[memory.start : memory.stop])
    after = decode(memory.ids[memory.start :])
    if len(after) > len(before) and not after.endswith(HALF):
        memory.start, memory.stop = memory.stop, len(memory.ids)
        memory.length += len(after) - len(before)
        yield Emit("text", after[len(before) :])
