"""What a chat template writes when a conversation goes on: found from the template itself, whatever its marks are."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from omniflow.roles import Message

Messages = Sequence[Message]
REPLY = "\ue000reply\ue000"  # private characters: no template writes them


def turn(render: Callable[[Messages], str], messages: Messages) -> str:
    """The text behind a reply: its end, the messages, the opening of the next reply.

    render: the template's text of a conversation, open for the assistant's answer. Errors: ValueError for a template
    that does not write replies as they are.
    """
    before = [{"role": "user", "content": "."}, {"role": "assistant", "content": REPLY}]
    _, found, behind = render([*before, *messages]).rpartition(REPLY)
    if not found:
        raise ValueError("the chat template does not write replies as they are, so no conversation can go on from one")
    return behind
