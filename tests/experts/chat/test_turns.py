"""A turn is what the chat template writes behind a reply, whatever its marks are."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import pytest
from jinja2.sandbox import ImmutableSandboxedEnvironment

from omniflow.experts.chat_turns import turn

CHATML = (
    "{% for m in messages %}{% if loop.first and m['role'] != 'system' %}<|im_start|>system\nBe kind<|im_end|>\n"
    "{% endif %}<|im_start|>{{ m['role'] }}\n{{ m['content'] }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
LLAMA = (
    "<s>{% for m in messages %}{% if m['role'] == 'user' %}[INST] {{ m['content'] }} [/INST]"
    "{% else %}{{ m['content'] }}</s>{% endif %}{% endfor %}"
)
SILENT = "{% for m in messages if m['role'] == 'user' %}{{ m['content'] }}{% endfor %}"


def renderer(template: str) -> Callable[[Sequence[Mapping[str, str]]], str]:
    compiled = ImmutableSandboxedEnvironment().from_string(template)
    return lambda messages: compiled.render(messages=list(messages), add_generation_prompt=True)


@pytest.mark.parametrize("template", [CHATML, LLAMA])
def test_prompt_reply_and_turn_are_the_whole_conversation(template: str) -> None:
    render = renderer(template)
    chat = [{"role": "user", "content": "Hello, you"}]
    text = render(chat)
    for reply, question in (("Yes?", "Why?"), ("So it is.", "reply ? \ue000")):
        chat += [{"role": "assistant", "content": reply}, {"role": "user", "content": question}]
        text += reply + turn(render, chat[-1:])
        assert text == render(chat)


def test_a_turn_has_no_system_prompt_of_its_own() -> None:
    assert turn(renderer(CHATML), [{"role": "user", "content": "Hm"}]) == (
        "<|im_end|>\n<|im_start|>user\nHm<|im_end|>\n<|im_start|>assistant\n"
    )


def test_a_template_that_leaves_replies_out_cannot_go_on() -> None:
    with pytest.raises(ValueError, match="does not write replies as they are"):
        turn(renderer(SILENT), [{"role": "user", "content": "Hm"}])
