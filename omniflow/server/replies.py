"""Replies to chats: a whole completion, or its chunks."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import Any

from omniflow.artefacts import wav
from omniflow.request import Result, State
from omniflow.server.events import Event
from omniflow.server.problems import error_in
from omniflow.server.turns import Turns
from omniflow.server.wire import base64_of, pcm
from omniflow.stream import Piece


def completion_of(turns: Turns, result: Result, *, speaks: bool) -> dict[str, Any]:
    """`choices` and `usage` of a request that is done."""
    text = result.outputs[turns.text.name]
    message: dict[str, Any] = {"role": "assistant", "content": text}
    if speaks and turns.audio is not None:
        data = wav(result.outputs[turns.audio.name], round(turns.audio.type.rate_hz or 0))
        message |= {"audio": {"id": f"audio-{result.id}", "data": base64_of(data), "transcript": text}}
    choice = {"index": 0, "message": message, "finish_reason": finish_of(turns, result)}
    return {"choices": [choice], "usage": usage_of(turns, result)}


async def chunks_of(
    events: AsyncIterator[Event], turns: Turns, *, speaks: bool, head: dict[str, Any]
) -> AsyncIterator[bytes]:
    """Server-sent chunks; the last one has `usage`. A request that fails ends them with an error."""
    yield _chunk(head, {"role": "assistant", "content": ""})
    async for event in events:
        if not isinstance(event, Piece):
            yield _last(turns, event.result, head)
        elif event.data is None:
            continue
        elif event.output == turns.text.name:
            yield _chunk(head, {"content": event.data})
        elif speaks and turns.audio is not None and event.output == turns.audio.name:
            yield _chunk(head, {"audio": {"id": f"audio-{event.request}", "data": base64_of(pcm(event.data))}})


def finish_of(turns: Turns, result: Result) -> str:
    """`length` when the loop that writes the text came to its bound, else `stop`."""
    if turns.writer is None:
        return "stop"
    return "length" if result.record["nodes"][turns.writer.id]["reasons"].get("bound") else "stop"


def usage_of(turns: Turns, result: Result) -> dict[str, int]:
    """Tokens of the rendered conversation and of the reply."""
    nodes = result.record["nodes"]
    read = sum(nodes[name]["emitted"].get("tokens", 0) for name in turns.readers if name in nodes)
    written = 0 if turns.writer is None else nodes[turns.writer.id]["emitted"].get("tokens", 0)
    return {"prompt_tokens": read, "completion_tokens": written, "total_tokens": read + written}


def _last(turns: Turns, result: Result, head: dict[str, Any]) -> bytes:
    if result.state is not State.DONE:
        return _data(error_in(result))
    choice = {"index": 0, "delta": {}, "finish_reason": finish_of(turns, result)}
    return _data({**head, "choices": [choice], "usage": usage_of(turns, result)})


def _chunk(head: dict[str, Any], delta: dict[str, Any]) -> bytes:
    return _data({**head, "choices": [{"index": 0, "delta": delta, "finish_reason": None}]})


def _data(body: dict[str, Any]) -> bytes:
    return f"data: {json.dumps(body, ensure_ascii=False)}\n\n".encode()
