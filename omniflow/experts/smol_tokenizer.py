"""SmolLM2's tokenizer: byte-level BPE from `tokenizer.json` and the chat template from `tokenizer_config.json`."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from jinja2 import StrictUndefined, Template
from jinja2.sandbox import ImmutableSandboxedEnvironment
from tokenizers import Tokenizer

from omniflow.experts.chat_turns import turn

if TYPE_CHECKING:
    import torch

END_OF_TURN, END_OF_TEXT = "<|im_end|>", "<|endoftext|>"


class SmolTokenizer:
    """Role Tokenizer (omniflow.roles)."""

    def __init__(self, *, tokenizer: Tokenizer, template: Template) -> None:
        self._tokenizer = tokenizer
        self._template = template
        known = (tokenizer.token_to_id(token) for token in (END_OF_TURN, END_OF_TEXT))
        self._stop_ids = tuple(i for i in known if i is not None)

    @property
    def stop_ids(self) -> Sequence[int]:
        return self._stop_ids

    def encode(self, text: str) -> list[int]:
        ids: list[int] = self._tokenizer.encode(text, add_special_tokens=False).ids
        return ids

    def encode_chat(self, messages: Sequence[Mapping[str, str]]) -> list[int]:
        """Ids of the conversation, open for the assistant's answer.

        The template puts its own system prompt first where the conversation brings none. Raises ValueError for a
        message without `role` or `content`.
        """
        return self.encode(self._render(messages))

    def encode_turn(self, messages: Sequence[Mapping[str, str]]) -> list[int]:
        """Ids of what comes behind a reply when the conversation goes on. Raises ValueError as above."""
        return self.encode(turn(self._render, messages))

    def _render(self, messages: Sequence[Mapping[str, str]]) -> str:
        for message in messages:
            if not {"role", "content"} <= message.keys():
                raise ValueError(f"a chat message needs 'role' and 'content', this one has: {', '.join(message)}")
        return self._template.render(messages=messages, add_generation_prompt=True)

    def decode(self, ids: Sequence[int]) -> str:
        text: str = self._tokenizer.decode(list(ids), skip_special_tokens=True)
        return text


def load(folder: Path, *, dtype: torch.dtype, device: torch.device) -> SmolTokenizer:  # noqa: ARG001
    """Reads tokenizer.json and tokenizer_config.json; dtype and device do not matter to a tokenizer."""
    config = json.loads((folder / "tokenizer_config.json").read_text(encoding="utf-8"))
    environment = ImmutableSandboxedEnvironment(undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    return SmolTokenizer(
        tokenizer=Tokenizer.from_file(str(folder / "tokenizer.json")),
        template=environment.from_string(config["chat_template"]),
    )
