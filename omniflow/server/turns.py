"""How a program answers chats: which of its inputs and outputs a conversation fills, and which loop writes the text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from omniflow.bind import CHATS
from omniflow.errors import InputError
from omniflow.server.forms import VOICE_NAMES, input_of, needs_more, sound_of
from omniflow.server.wire import read_upload
from omniflow.values import is_starred
from omniflow_compiler.schedule import Input, Node, Output, Schedule

Message = Mapping[str, Any]
MEDIA_PARTS = {"input_audio": "audio", "image_url": "image"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Turns:
    """Where a chat's parts go. `prompt` is a text, or JSON that takes the whole conversation."""

    prompt: Input
    media: Mapping[str, Input]  # by base: audio, image
    voice: Input | None
    text: Output
    audio: Output | None
    writer: Node | None  # the loop whose tokens become the text
    readers: Sequence[str]  # nodes that make the conversation tokens

    def inputs_of(self, messages: Sequence[Message]) -> dict[str, Any]:
        """A conversation as inputs. Errors: InputError for what the program has no place for."""
        if not messages:
            raise InputError("messages: it has none")
        read = [self._read(i, message) for i, message in enumerate(messages)]
        files = self._files([file for _, found in read for file in found])
        if self.prompt.type.base != "text":
            turns = [{"role": m["role"], "content": text} for m, (text, _) in zip(messages, read, strict=True)]
            return {self.prompt.name: turns, **files}
        if len(messages) > 1 or messages[0]["role"] != "user":
            raise InputError(f"messages: this program takes one user turn ({self.prompt.name} is a text)")
        return {self.prompt.name: read[0][0], **files}

    def _files(self, found: Sequence[tuple[Input, Any]]) -> dict[str, Any]:
        """Files by input, lists of them where an input takes several. Errors: InputError."""
        files: dict[str, Any] = {}
        for spec, value in found:
            if is_starred(spec.type):
                files.setdefault(spec.name, []).append(value)
            elif spec.name in files:
                raise InputError(f"messages: this program takes one {spec.name}")
            else:
                files[spec.name] = value
        return files

    def _read(self, number: int, message: Message) -> tuple[str, list[tuple[Input, Any]]]:
        """A message's text and its files with their inputs. Errors: InputError."""
        content = message["content"]
        if isinstance(content, str):
            return content, []
        texts: list[str] = []
        files: list[tuple[Input, Any]] = []
        for part in content:
            where = f"messages.{number}: a part of type {part.get('type')!r}"
            if part.get("type") == "text" and isinstance(part.get("text"), str):
                texts.append(part["text"])
                continue
            spec = self.media.get(MEDIA_PARTS.get(str(part.get("type")), ""))
            if spec is None:
                known = ["text", *(kind for kind, base in MEDIA_PARTS.items() if base in self.media)]
                raise InputError(f"{where} has no place here; this program takes {', '.join(known)}")
            files.append((spec, read_upload(spec, _file(where, part))))
        return "\n".join(texts), files

    def param(self, name: str, value: Any) -> dict[str, Any]:
        """A sampling parameter of the loop that writes the text. Errors: InputError when it has none of that name."""
        if self.writer is None or name not in self.writer.attributes:
            raise InputError(f"{name}: this program's text has no such parameter")
        return {f"{self.writer.id}.{name}": value}


def turns_of(schedule: Schedule) -> Turns | None:
    """How the program answers chats; None for one that takes no text or JSON, or gives no text."""
    prompt = _prompt(schedule)
    text = next((spec for spec in schedule.outputs if spec.type.base == "text" and not spec.type.axes), None)
    if prompt is None or text is None or needs_more(schedule, prompt):
        return None
    named = {spec.name: spec for spec in schedule.inputs}
    media = {base: named[base] for base in MEDIA_PARTS.values() if base in named and named[base].type.base == base}
    return Turns(
        prompt=prompt,
        media=media,
        voice=input_of(schedule, "text", VOICE_NAMES),
        text=text,
        audio=sound_of(schedule),
        writer=_writer(schedule, text.node),
        readers=[node.id for node in schedule.nodes if node.name in CHATS],
    )


def _prompt(schedule: Schedule) -> Input | None:
    named = {spec.name: spec for spec in schedule.inputs}
    messages, prompt = named.get("messages"), named.get("prompt")
    if messages is not None and messages.type.base in ("json", "text"):
        return messages
    return prompt if prompt is not None and prompt.type.text == "text" else None


def _writer(schedule: Schedule, node_id: str) -> Node | None:
    """The nearest autoregressive loop behind a node."""
    sources: dict[str, list[str]] = {}
    for channel in schedule.channels:
        if "." in channel.source:
            sources.setdefault(channel.node, []).append(channel.source.rpartition(".")[0])
    nodes = {node.id: node for node in schedule.nodes}
    line, seen = [node_id], {node_id}
    for name in line:
        if nodes[name].name == "ar_decode":
            return nodes[name]
        fresh = [source for source in sources.get(name, []) if source not in seen]
        seen.update(fresh)
        line += fresh
    return None


def _file(where: str, part: Mapping[str, Any]) -> dict[str, str]:
    """A part's file, as uploads are written. Errors: InputError."""
    if part["type"] == "input_audio":
        given = part.get("input_audio")
        if isinstance(given, Mapping) and isinstance(given.get("data"), str) and isinstance(given.get("format"), str):
            return {"base64": given["data"], "name": f"audio.{given['format']}"}
        raise InputError(f'{where} is {{"data": base64, "format": "wav"}}')
    given = part.get("image_url")
    url = given.get("url") if isinstance(given, Mapping) else given
    if isinstance(url, str) and url.startswith("data:image/") and ";base64," in url:
        head, _, data = url.partition(";base64,")
        return {"base64": data, "name": f"image.{head.removeprefix('data:image/')}"}
    raise InputError(f"{where} is a data URL (data:image/png;base64,...); nothing is fetched from elsewhere")
