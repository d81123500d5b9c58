"""Room for sounds and pictures among tokens, and their marks in a chat."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pytest
import torch

from omniflow.loops.base import Emit
from omniflow.ops.base import Call
from omniflow.ops.table import OPS


def _call(name: str, values: Mapping[str, Any], component: Any = None, **params: Any) -> dict[str, Any]:
    call = Call(values=values, windows={}, params=params, component=component, memory=None, is_end=True)
    return {emit.port: emit.data for emit in OPS[name].run(call) if isinstance(emit, Emit)}


def test_each_token_is_repeated_as_often_as_its_item_has_rows() -> None:
    tokens, items = torch.tensor([7, 5, 1, 5, 5, 2]), [torch.zeros(3, 2), torch.zeros(0, 2), torch.zeros(1, 2)]
    own = _call("repeat_at", {"tokens": tokens, "like": items}, ids=[5])
    assert own["tokens"].tolist() == [7, 5, 5, 5, 1, 5, 2]
    assert _call("repeat_at", {"tokens": tokens, "like": []}, ids=[9])["tokens"].tolist() == tokens.tolist()


def test_tokens_without_items_and_items_without_tokens_are_refused() -> None:
    with pytest.raises(ValueError, match=r"the prompt has 2 places \(token 5\) for 1 sounds or pictures"):
        _call("repeat_at", {"tokens": torch.tensor([5, 5]), "like": [torch.zeros(1)]}, ids=[5])


class _Chat:
    """Notes the messages it is given."""

    def __init__(self) -> None:
        self.messages: Sequence[Mapping[str, Any]] = ()

    def encode_chat(self, messages: Sequence[Mapping[str, Any]]) -> list[int]:
        self.messages = messages
        return [1, 2]


def _messages(said: Any, pictures: int, sounds: int, system: str = "") -> Sequence[Mapping[str, Any]]:
    chat, shown = _Chat(), {"pictures": [torch.zeros(1)] * pictures, "sounds": [torch.zeros(1)] * sounds}
    _call("chat_tokenize", {"messages": said, **shown}, chat, system=system)
    return chat.messages


IMAGE, AUDIO = {"type": "image"}, {"type": "audio"}


def test_pictures_and_sounds_stand_before_what_the_user_says() -> None:
    (user,) = _messages("hello", 1, 2)
    assert user == {"role": "user", "content": [IMAGE, AUDIO, AUDIO, {"type": "text", "text": "hello"}]}
    (user,) = _messages("", 0, 1)
    assert user["content"] == [AUDIO]
    assert _messages("hello", 0, 0) == [{"role": "user", "content": "hello"}]
    assert _messages("hello", 1, 0, system="be brief")[0] == {"role": "system", "content": "be brief"}


def test_in_a_conversation_they_stand_in_the_last_turn_of_the_user_and_parts_stay_as_they_are() -> None:
    roles = {"one": "user", "two": "assistant", "three": "user"}
    talk = [{"role": role, "content": text} for text, role in roles.items()]
    own = _messages(talk, 1, 0)
    assert own[:2] == talk[:2]
    assert own[2]["content"] == [IMAGE, {"type": "text", "text": "three"}]
    placed = [{"role": "user", "content": [{"type": "text", "text": "look:"}, IMAGE]}]
    assert _messages(placed, 1, 0) == placed


def test_nothing_said_shown_or_played_is_refused_where_something_could_be() -> None:
    with pytest.raises(ValueError, match="nothing is said, shown or played"):
        _messages("", 0, 0)
    chat = _Chat()
    _call("chat_tokenize", {"messages": ""}, chat)
    assert chat.messages == [{"role": "user", "content": ""}]
